# make demo   a whole study on invented people: declare, plan, collect, settle, verify
# make test   every check: format, lint, types, tests
# make fast   the tests without the slow statistical proofs
# make docs   the documentation as a site, in site/
# make bench  how fast it is, next to others, in docs/benchmarks.md (an hour)

PYTHON ?= python3
BIN := .venv/bin
# The package alone, which is all that the demo needs, and with what checks need.
PACKAGE := .venv/.package
READY := .venv/.ready
PEERS := .venv-peers/.ready

.PHONY: demo test fast check docs bench clean

demo: $(PACKAGE)
	$(BIN)/truthful demo

test: check
	$(BIN)/pytest

fast: $(READY)
	$(BIN)/pytest -m "not slow"

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean

$(PACKAGE): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "truthful needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --editable .
	touch $@

$(READY): $(PACKAGE)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

bench: $(READY) $(PEERS)
	$(BIN)/python benchmarks/run.py

# diffprivlib does not import with the newest scikit-learn.
$(PEERS): pyproject.toml
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --editable . diffprivlib==0.6.6 scikit-learn==1.6.1 "opendp[scikit-learn]==0.16.0" statsmodels
	touch $@

clean:
	rm -rf .venv .venv-peers site .mypy_cache .pytest_cache .ruff_cache
