# make run | test | test-all | faults | mutants | check | docs | ui | env | lock | lock-builds.  PYTHON=… picks the interpreter (3.11 to 3.13).

SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c '$(SUPPORTED)' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
MADE := .venv/.made
PYTHON_FILES := src packages tests benchmarks docs/reference_hook.py reports/published/add.py

# Known vulnerabilities of what is locked; where nobody can be asked, that is said and no fault.
AUDIT = found=$$($(BIN)/pip-audit --no-deps --disable-pip --progress-spinner off --timeout 15 \
	-r requirements.lock 2>&1); status=$$?; \
	echo "$$found" | grep -v 'could not be audited' | tail -40; \
	echo "pip-audit: of $$(grep -c '^[a-z].*==' requirements.lock) packages" \
	"$$(echo "$$found" | grep -c 'could not be audited') could not be looked up"; \
	if echo "$$found" | grep -qE 'ConnectionError|ServiceError|Max retries|HTTPError|Timeout'; \
	then echo "pip-audit: skipped, its service cannot be reached"; else exit $$status; fi

# No rule has `conda:`: the commands of rules need the environment that Snakemake itself runs in, which reads
# the Snakefile with it. So the lint that asks for one is expected, and any other one is an error.
LINT = $(BIN)/snakemake --lint 2>&1 | awk '/^ +[*] Specify a conda environment/ {known++; next} \
	/^ +[*] |Error|Exception|rnnbench: / {print; wrong++} END {exit wrong > 0 || known == 0}'

# Bytecode is kept, whatever PYTHONDONTWRITEBYTECODE says: without it, each process spends 5 s on rewriting and
# compiling the tests. It is beside the sources, where that of installed packages was compiled: a folder of its own
# would begin empty in a fresh clone, and compiling each framework again takes ten seconds.
PYTEST = env -u PYTHONDONTWRITEBYTECODE -u PYTHONPYCACHEPREFIX $(BIN)/python -m pytest

# Broken links and pages that are in no menu are errors.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The type checker computes for 20 s, and the audit may wait as long, so they run beside the others.
CHECKS := check-types check-audit check-docs check-workflow check-style

.PHONY: $(CHECKS) run test test-all faults mutants check docs ui env lock lock-builds schemas format

run: $(MADE)
	@$(BIN)/python -m rnnbench run

# Without workflows, servers, browsers, old builds, clusters and long simulations. Three processes, because some
# tests wait for a worker.
test: $(MADE)
	$(PYTEST) --numprocesses 3 --quick

# Everything; CI runs this. Three processes, because some tests wait for a cluster or a server.
test-all: $(MADE)
	$(PYTEST) --numprocesses 3

# Every fault at every moment, 21 minutes; writes the table in tests/faults/README.md.
faults: $(MADE)
	RNNBENCH_FAULTS=all $(PYTEST) -p tests.faults.matrix -m fault

# How many faults in tables, planning, running and records the quick tests of these packages and of sources notice;
# hours, with PACKAGE=records a quarter of an hour, with SAMPLE=100 always the same 100 of them. mutants/ keeps what
# is done: start again to continue.
mutants: $(MADE)
	$(BIN)/mutmut run $(if $(PACKAGE),'rnnbench.$(PACKAGE).*',$(if $(SAMPLE),'rnnbench.records.timestamps.*_mutmut_1'))
	$(if $(SAMPLE),$(BIN)/python -m tests.mutants names $(SAMPLE) | xargs $(BIN)/mutmut run)
	$(BIN)/mutmut results
	$(BIN)/python -m tests.mutants score $(SAMPLE)

ui: $(MADE)
	$(BIN)/python -m rnnbench ui

env: $(MADE)

# uv comes from the lock too: its lines are cut out of it, so that pip checks its hash.
$(MADE): requirements.lock pyproject.toml packages/rnnweights/pyproject.toml
	@test -n "$(PYTHON)" || { echo "rnnbench needs Python 3.11, 3.12 or 3.13: install one, or say make PYTHON=/path/to/python"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	awk '/^uv==/ {p=1} p && /^[^ ]/ && !/^uv==/ {exit} p' requirements.lock > .venv/uv.lock
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r .venv/uv.lock
	VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv pip sync --quiet --compile-bytecode --require-hashes requirements.lock
	VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv pip install --quiet --no-deps --no-build-isolation \
		--editable packages/rnnweights --editable .
	@touch $(MADE)

# One lock for Python 3.11 to 3.13: hashes, no index.
lock: $(MADE)
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet \
		--no-emit-package rnnweights \
		--upgrade -o requirements.lock

# What the builds of conf/build are made from: workflow/envs/*.in, hashes and no index.
lock-builds: $(MADE)
	$(BIN)/python -m rnnbench lock

# For editors, from the types in src/rnnbench/grid/choices.py.
schemas: $(MADE)
	$(BIN)/python -c "from pathlib import Path; from rnnbench.grid.choices import write_schemas; write_schemas(Path('conf/schemas'))"

check: $(MADE)
	@$(MAKE) --no-print-directory --jobs 3 --keep-going --output-sync=target $(CHECKS)

check-types:
	$(BIN)/mypy

check-audit:
	$(AUDIT)

check-docs:
	$(MKDOCS) --quiet

check-workflow:
	$(BIN)/snakefmt --check workflow
	$(LINT)

check-style:
	$(BIN)/ruff check $(PYTHON_FILES)
	$(BIN)/ruff format --check $(PYTHON_FILES)

# The documentation as a website in site/.
docs: $(MADE)
	$(MKDOCS)

format: $(MADE)
	$(BIN)/ruff check --fix $(PYTHON_FILES)
	$(BIN)/ruff format $(PYTHON_FILES)
	$(BIN)/snakefmt workflow
