# Thin: each target makes sure of .venv and of what a world needs, then calls the tool that does the work.
# Complete from a clean clone; the second time in seconds, for the stamps below say what is done already.

PYTHON ?= python3
BIN := .venv/bin
WORLD ?= local

.DEFAULT_GOAL := help
.PHONY: help install setup demo test test-all lint docs clean

help:  ## these lines
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: .venv/installed  ## .venv with everything in it (1.2 GB of disk, once)

# Enough for a run at level sim or live: without Spark and without the developers' tools.
.venv/light: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Floodmark needs Python 3.11 or later; name one: make PYTHON=python3.12 ..." >&2; exit 11; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[mysql]'
	@touch $@

.venv/installed: .venv/light
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,dev]'
	@touch $@

setup: install  ## what a world lacks: a database server and a proxy, into the cache (WORLD=containers: images)
	@$(BIN)/floodmark setup --world $(WORLD)

.venv/site: .venv/light
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

demo: .venv/light  ## the reference passes, a planted defect is convicted, a report shows both
	@$(BIN)/floodmark setup --world local --proxy own
	@$(BIN)/floodmark demo --level live --world local

test: setup  ## every guard, every tier, in minutes (one tier: .venv/bin/tox -e quick)
	@$(BIN)/tox

test-all: setup  ## `make test` and what takes longer: every real test, the sweeps; as the build machine does
	@$(BIN)/tox -m all

lint: install  ## ruff, mypy and the import floors only
	@$(BIN)/tox -e lint,types,arch

docs: .venv/site  ## the site with search, build/docs/index.html; a warning, as a broken link, is an error
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -c docs . build/docs
	@echo "build/docs/index.html"

clean:  ## what runs and tests left here; .venv and the cache of servers stay
	@test ! -x $(BIN)/floodmark || $(BIN)/floodmark clean
	rm -rf .tox .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis reports/out dist build
