"""The command line. Each command is a small dataclass in a module *_commands; its work is in a module of its own."""
