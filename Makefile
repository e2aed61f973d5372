# A machine with only Python 3.11+ is enough: the first run makes .venv, later runs reuse it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check

.PHONY: help setup demo test lint format results docs clean
help:
	@echo "make setup    make .venv and install unmask in it, with the pinned versions of constraints.txt"
	@echo "make demo     see it at work (DEMO=\"--steps 500\" for a shorter look)"
	@echo "make test     lint, type-check, check the layers, run all tests"
	@echo "make lint     only the static checks"
	@echo "make format   format the code"
	@echo "make results  rebuild the tables and pictures in docs from benchmarks/results"
	@echo "make docs     build the site of the documents into site/"
	@echo "make clean    delete .venv and caches"

setup: $(READY)

# torch is asked for first and by exact version: that is the one way pip never replaces it by another build.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "unmask needs Python 3.11 or later: got `$(PYTHON) --version`; install it or call make PYTHON=python3.12"; exit 2; }
	@echo "installing unmask and torch into $(VENV): once, about two minutes"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) "$$(grep '^torch==' constraints.txt)"
	@$(PIP) -c constraints.txt hatchling editables
	@$(PIP) -c constraints.txt --no-build-isolation -e ".[dev]"
	@touch $(READY)

demo: $(READY)
	@$(BIN)/unmask demo $(DEMO)

test: lint
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks

results: $(READY)
	$(BIN)/python -m benchmarks.tables
	$(BIN)/python -m benchmarks.plots

docs: $(READY)
	$(BIN)/zensical build --clean --strict

clean:
	rm -rf $(VENV) site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
