"""The command line. Each command is a small dataclass in `main`; its work is in a module of its own."""
