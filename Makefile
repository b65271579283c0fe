# setup | demo | test | check | bench | ui
PYTHON ?= python3
UV_VERSION := 0.13.8
BIN := .venv/bin
BASE := .venv/.base-installed
DEV := .venv/.dev-installed

# Without .pyc files every start of ZenML takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

# uv does not read pip's find-links. Where they are set, torch comes from there (the CPU build, say);
# elsewhere uv picks the build for this machine's driver.
ifdef PIP_FIND_LINKS
export UV_FIND_LINKS := $(PIP_FIND_LINKS)
TORCH :=
else
TORCH := --torch-backend=auto
endif

.PHONY: setup setup-dev demo test check bench ui requirements

setup: $(BASE)

setup-dev: $(DEV)

$(BIN)/uv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rlft needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet uv==$(UV_VERSION)

$(BASE): $(BIN)/uv requirements/base.txt requirements/overrides.txt pyproject.toml
	$(BIN)/uv pip install --quiet $(TORCH) --override requirements/overrides.txt -r requirements/base.txt
	$(BIN)/uv pip install --quiet --no-deps --editable .
	$(BIN)/python -m compileall -q -j 0 rlft pipelines steps materializers
	touch $@

$(DEV): $(BASE) requirements/dev.txt
	$(BIN)/uv pip install --quiet $(TORCH) -r requirements/dev.txt
	touch $@

demo: setup
	$(BIN)/rlft run configs/demo.yaml --summary .rlft/demo.json

test: setup-dev
	$(BIN)/python -m pytest

check: setup-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python -m tests.check_configs

bench: setup-dev
	$(BIN)/python -m tests.benchmarks.orchestration --json

ui: setup
	$(BIN)/rlft ui

# Pins without addresses; torch without the name of its build.
requirements: $(BIN)/uv
	$(BIN)/uv pip compile --quiet --upgrade --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
		--override requirements/overrides.txt requirements/base.in --output-file requirements/base.txt
	$(BIN)/uv pip compile --quiet --upgrade --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
		requirements/dev.in --output-file requirements/dev.txt
	sed -i 's/^\(torch==[0-9.]*\)+.*/\1/' requirements/base.txt requirements/dev.txt
