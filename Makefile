# Needs Python 3.11+ and make; everything else goes into .venv.  make PYTHON=... chooses the interpreter.

VENV ?= .venv
BIN := $(VENV)/bin
DEFAULT_GROUP := not slow and not cuda and not neuron
# one BLAS thread per test process: the processes already fill the cores; bytecode is kept, which they all start from
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 8 --dist worksteal

.PHONY: help demo test test-all test-lowest test-newest campaign sanitize validate setup check lint types imports format bench docs docs-serve clean
.NOTPARALLEL:

help:
	@echo "make demo       the MP2 energy of water on PyTorch and on the simulator, beside PySCF; predicted times"
	@echo "make test       the default test suite on all cores"
	@echo "make test-all   also the slow tests, and those of whatever device this machine has"
	@echo "make test-lowest, test-newest   the default suite with other versions of torch, NumPy and SciPy, in a venv of its own"
	@echo "make campaign   random and adversarial calls of every function, SECONDS=600 of them"
	@echo "make sanitize   the extension in C under sanitizers: its tests, and random calls for SECONDS=600"
	@echo "make validate   every kernel on this machine's Trainium, and a report; BUDGET=30m"
	@echo "make check      lint, types, imports and docs: linters, mypy, mypy and pyright on a user's program, import contracts, a site without broken links"
	@echo "make bench      every op beside its peers; predicted cycles against their baselines"
	@echo "make docs       build the site into site/"
	@echo "make docs-serve build it and serve it at http://localhost:8000, search included; PORT=... chooses another"
	@echo "make setup      only set up $(VENV); the targets above do it by themselves"
	@echo "make format     let ruff fix and format"
	@echo "make clean      remove caches and build products (not $(VENV))"

INSTALL = PYTHON="$(PYTHON)" sh tools/find_python.sh tools/setup_venv.py $(VENV)
VERSIONS ?= pinned
PINS ?=
INPUTS := pyproject.toml setup.py constraints.txt tools/setup_venv.py tools/find_python.sh $(wildcard src/loops/*)

$(VENV)/.ready-demo: $(INPUTS)
	@$(INSTALL) chem,cli
	@touch $@

$(VENV)/.ready-dev: $(INPUTS)
	@$(INSTALL) dev $(VERSIONS) $(PINS)
	@touch $@ $(VENV)/.ready-demo

setup: $(VENV)/.ready-dev

demo: $(VENV)/.ready-demo
	@$(BIN)/trnsci demo

test: $(VENV)/.ready-dev
	$(PYTEST) -m "$(DEFAULT_GROUP)"

test-all: $(VENV)/.ready-dev
	$(PYTEST)

# PINS="torch==2.13.0" keeps a build that is there
test-lowest:
	$(MAKE) test VENV=.venv-lowest VERSIONS=lowest

test-newest:
	$(MAKE) test VENV=.venv-newest VERSIONS=newest

SECONDS ?= 600
campaign: $(VENV)/.ready-dev
	$(BIN)/python -m tests.campaign --seconds $(SECONDS) --counts tests/campaign/counts.json
	$(BIN)/python -m tests.campaign --docs

sanitize: $(VENV)/.ready-dev
	$(BIN)/python tools/sanitize.py --seconds $(SECONDS)

BUDGET ?= 1h
# in the environment that is active: that of the Neuron SDK has the device's PyTorch, $(VENV) has not
validate:
	@$(or $(PYTHON),python3) -m trnsci.cli validate --budget $(BUDGET)

check: lint types imports docs
	@$(BIN)/python tools/sizes.py

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check --output-format concise .
	$(BIN)/ruff format --check --output-format concise .

types: $(VENV)/.ready-dev
	$(BIN)/mypy
	$(BIN)/python -m tests.types

imports: $(VENV)/.ready-dev
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.ready-dev
	$(BIN)/python -m benchmarks.run --write
	$(BIN)/python -m benchmarks.every_function --write

PORT ?= 8000
docs: $(VENV)/.ready-dev
	$(BIN)/python -m zensical build --clean --strict

docs-serve: docs
	@echo "http://localhost:$(PORT)"
	@$(BIN)/python -m http.server --directory site --bind 127.0.0.1 $(PORT)

clean:
	rm -rf build dist site .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis src/*.egg-info
	find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +
