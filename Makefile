# What a developer does daily. `make help` lists it.
PYTHON ?= python3
VENV   ?= .venv
# Which builds of torch and triton the environment gets. Plain names take what your package index serves; to choose
# another build, set TORCH to a version or a wheel and PIP_TORCH to pip's options (an index of CPU builds, say).
TORCH  ?= torch==2.13.0
TRITON ?= triton==3.7.1
PIP_TORCH ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
VSIX := vscode-extension/tritonforge-0.1.0.vsix
# npm with a Node that is new enough, in the extension's folder.
NPM = cd vscode-extension && PATH="$$(PYTHON="$(PYTHON)" ../scripts/install_node.sh 22):$$PATH" npm --loglevel=error

.DEFAULT_GOAL := help
.PHONY: help demo test proof lint format lock vsix workbench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: $(VENV)/.run ## set everything up and optimise the example matmul (no GPU needed)
	@$(BIN)/tritonforge optimize examples/matmul.py::matmul_kernel --target offline

test: $(VENV)/.dev ## set everything up and run the tests
	@$(BIN)/python -m pytest -n auto --maxprocesses=4 --dist loadfile --no-loadscope-reorder

proof: $(VENV)/.dev ## judge every mutant and variant of benchmarks/proof and print the table (long)
	@$(BIN)/python benchmarks/proof/run.py all

lint: $(VENV)/.dev ## ruff, mypy --strict and the walls between rooms
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

format: $(VENV)/.dev ## let ruff format and mend what it can
	@$(BIN)/ruff check --fix . || true
	@$(BIN)/ruff format .

lock: $(VENV)/.dev ## write requirements/*.txt anew
	$(UV_COMPILE) requirements/run.in pyproject.toml -o requirements/run.txt
	$(UV_COMPILE) --group dev -c requirements/run.txt pyproject.toml -o requirements/dev.txt
	$(UV_COMPILE) --no-deps requirements/kernels.in -o requirements/kernels.txt

vsix: $(VSIX) ## lint, test and package the VS Code extension with its server
	@echo $(VSIX)

workbench: ## install the VS Code workbench that tests/workbench drives (850 MB under ~/.cache)
	@PYTHON="$(PYTHON)" scripts/install_workbench.sh

clean: ## remove the environment and every cache in this folder
	rm -rf $(VENV) $(VSIX) vscode-extension/node_modules vscode-extension/dist vscode-extension/server .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .tritonforge

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "TritonForge needs Python 3.11 or newer; '$(PYTHON)' is older. Name another: make PYTHON=python3.12 …" >&2; exit 1; }
	@echo "Creating $(VENV) …"
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "Python's venv module does not work here; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.run: $(VENV)/bin/python requirements/run.txt pyproject.toml Makefile
	@echo "Installing the tool …"
	@$(PIP) install --require-hashes -r requirements/run.txt
	@$(PIP) install --no-build-isolation --no-deps -e .
	@echo "Installing $(TORCH) and $(TRITON) …"
	@$(PIP) install $(PIP_TORCH) $(TORCH) $(TRITON)
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt requirements/kernels.txt
	@echo "Installing what tests and linters need …"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@$(PIP) install --require-hashes --no-deps -r requirements/kernels.txt
	@touch $@

$(VSIX): $(wildcard vscode-extension/src/*.ts vscode-extension/src/*/*.ts vscode-extension/test/*.ts) \
  $(wildcard vscode-extension/*.json vscode-extension/*.mjs vscode-extension/media/* vscode-extension/media/*/*) \
  vscode-extension/README.md vscode-extension/.vscodeignore scripts/build_wheel.sh pyproject.toml \
  $(shell find server/tritonforge -type f -not -name '*.pyc') vscode-extension/node_modules/.installed
	@cp LICENSE vscode-extension/LICENSE
	@PYTHON="$$(test -x $(BIN)/python && echo $(BIN)/python || echo "$(PYTHON)")" scripts/build_wheel.sh vscode-extension/server
	@$(NPM) run --silent check
	@$(NPM) test --silent
	@$(NPM) run --silent package -- --out tritonforge-0.1.0.vsix

vscode-extension/node_modules/.installed: vscode-extension/package-lock.json scripts/install_node.sh
	@echo "Installing what the extension is built with …"
	@$(NPM) ci --ignore-scripts --no-audit --no-fund
	@touch $@
