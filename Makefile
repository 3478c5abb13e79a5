# make run | test | check | ui | env | lock | lock-builds.  PYTHON=… picks the interpreter (3.11 to 3.13).

SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c '$(SUPPORTED)' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
MADE := .venv/.made
PYTHON_FILES := src tests

.PHONY: run test check ui env lock lock-builds format

run: $(MADE)
	$(BIN)/snakemake --cores all

test: $(MADE)
	$(BIN)/python -m pytest

ui: $(MADE)
	$(BIN)/mlflow ui --backend-store-uri sqlite:///mlflow.db

env: $(MADE)

# uv comes from the lock too: its lines are cut out of it, so that pip checks its hash.
$(MADE): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "rnnbench needs Python 3.11, 3.12 or 3.13: install one, or say make PYTHON=/path/to/python"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	awk '/^uv==/ {p=1} p && /^[^ ]/ && !/^uv==/ {exit} p' requirements.lock > .venv/uv.lock
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r .venv/uv.lock
	VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv pip sync --quiet --compile-bytecode --require-hashes requirements.lock
	VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(MADE)

# One lock for Python 3.11 to 3.13: hashes, no index.
lock: $(MADE)
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet \
		--upgrade -o requirements.lock

# What the builds of conf/build are made from: workflow/envs/*.in, hashes and no index.
lock-builds: $(MADE)
	$(BIN)/python -m rnnbench lock

check: $(MADE)
	$(BIN)/ruff check $(PYTHON_FILES)
	$(BIN)/ruff format --check $(PYTHON_FILES)
	$(BIN)/snakefmt --check workflow
	$(BIN)/snakemake --lint
	$(BIN)/mypy

format: $(MADE)
	$(BIN)/ruff check --fix $(PYTHON_FILES)
	$(BIN)/ruff format $(PYTHON_FILES)
	$(BIN)/snakefmt workflow
