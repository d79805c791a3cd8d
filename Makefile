# Requires Python 3.11 or newer and make; everything else is installed into .venv.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3; do command -v $$name && break; done)
VENV := .venv
unexport PYTHONDONTWRITEBYTECODE # otherwise every command compiles all its modules again
BIN := $(VENV)/bin

.PHONY: demo test chaos lint bench dashboards clean

$(VENV)/.base: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.test: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test,lint]'
	touch $@ $(VENV)/.base

demo: $(VENV)/.base  ## run a controller with examples on SQLite; ONCE=1 makes it end by itself
	$(BIN)/python config/examples/demo.py $(if $(ONCE),--once)

test: $(VENV)/.test  ## run the whole suite on SQLite and PostgreSQL
	$(BIN)/pytest -n 4 --dist loadgroup $(PYTEST_ARGS)

chaos: $(VENV)/.test  ## kill, stop and restart three replicas for three minutes
	CHAOS_SECONDS=180 $(BIN)/pytest -n 0 tests/crash/test_chaos.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test  ## print tables of ratios to minimal baselines
	$(BIN)/python -m benchmarks

dashboards: $(VENV)/.test  ## build the chart's dashboards and alert rules
	$(BIN)/python -m dashboards

clean:
	rm -rf $(VENV) build *.egg-info
