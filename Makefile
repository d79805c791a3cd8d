# Requires Python 3.11 or newer and make; everything else is installed into .venv.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3; do command -v $$name && break; done)
VENV := .venv
unexport PYTHONDONTWRITEBYTECODE # otherwise every command compiles all its modules again
BIN := $(VENV)/bin

.PHONY: demo test chaos lint mutants bench dashboards clean

$(VENV)/.base: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.test: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test,lint]'
	touch $@ $(VENV)/.base

$(VENV)/.mutants: $(VENV)/.test
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[mutants]'
	touch $@

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

MUTANTS ?= reconcile.schedule.* reconcile.decide.* reconcile.report.*
mutants: $(VENV)/.mutants  ## breaks of the pure modules that their table tests notice; MUTANTS='reconcile.decide.in_force.*' for one
	rm -f mutants/mutmut-stats.json # which test reaches which function is learnt anew: mutmut does so for new tests alone
	nice $(BIN)/mutmut run $(foreach name,$(MUTANTS),'$(name)')
	@$(BIN)/mutmut results --all true | awk -F '\\.x[ǁ_]|: ' '$$NF != "not checked" { all[$$1]++; sum++ } \
		$$NF ~ /^(killed|timeout)$$/ { killed[$$1]++; total++ } \
		END { for (name in all) printf "%5.1f %% of %4d%s\n", 100 * killed[name] / all[name], all[name], name | "sort -n"; \
		close("sort -n"); printf "%5.1f %% of %4d in all\n", 100 * total / sum, sum; exit total / sum < 0.85 }'

bench: $(VENV)/.test  ## print tables of ratios to minimal baselines
	$(BIN)/python -m benchmarks

dashboards: $(VENV)/.test  ## build the chart's dashboards and alert rules
	$(BIN)/python -m dashboards

clean:
	rm -rf $(VENV) build mutants *.egg-info
