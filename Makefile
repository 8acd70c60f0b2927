# memline: `make demo` shows it, `make test` proves it. Everything stays in this folder: the environment in .venv, the demo's memory
# in .memline-demo. Nothing is installed globally, and nothing is installed again while pyproject.toml stays as it is.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
STACK_ARGS ?=

.PHONY: help up down stack demo test check services bench bench-search bench-extract explore chaos clean

help:
	@echo "make demo      run the main job on the embedded default: no key, no server"
	@echo "make up        memline and all it stands on, in docker: servers, workers, Flower, Prometheus, Grafana"
	@echo "make down      end that, keeping its data"
	@echo "make stack     the same services as plain processes of this machine, without docker, until Ctrl-C"
	@echo "make test      all tests, with a real Redis, a real PostgreSQL and real workers (PYTEST_ARGS=… to choose)"
	@echo "make check     lint, format, types, import directions"
	@echo "make services  say which Redis and PostgreSQL the tests would use"
	@echo "make bench     the figures of speed"
	@echo "make bench-search DATA=…   what search finds in a folder of data, and how long it takes (BENCH_ARGS=… to choose); JSON beside it"
	@echo "make bench-extract DATA=…   what the extractor keeps of conversations and of pleasantries (BENCH_ARGS=--model for the model set)"
	@echo "make explore   look for what no test knows yet: the model of all steps in any order, with new examples each time (minutes)"
	@echo "make chaos     every fault at every point, on real servers; the table goes into docs/guarantees.md (more than an hour)"
	@echo "make clean     remove the environment, the memory of the demo and the stack, builds and caches"

# Without services and without the key that a shell may hold: the demo calls nobody and costs nothing.
demo: $(VENV)/installed
	@env -u MEMLINE_REDIS_URL -u MEMLINE_LEDGER_URL MEMLINE_EXTRACTOR=rules MEMLINE_EMBEDDER=local MEMLINE_INDEX=embedded \
		MEMLINE_HOME="$(CURDIR)/.memline-demo" $(BIN)/memline demo

# `up --wait` takes a container that ended for a failure, so the migration, which is to end, is not among those it waits for.
up: docker .env
	docker compose up --detach --build
	@docker compose up --detach --no-recreate --no-deps --wait $$(docker compose config --services | grep -v '^migrate$$')
	@echo; echo "Healthy. It is reachable on this machine only; users and passwords are in .env:"
	@for place in flower:5555 grafana:3000 prometheus:9090 metrics:9464 weaviate:8080 redis:6379 postgres:5432; do \
		printf '  %-11s %s\n' "$${place%:*}" "$$(docker compose port "$${place%:*}" "$${place#*:}")"; done
	@echo "docs/operations.md says how an application connects. Logs: docker compose logs --follow. End it: make down"

down: docker
	docker compose down
	@echo "Ended; the data is kept (docker compose down --volumes removes it)."

.PHONY: docker
docker:
	@command -v docker >/dev/null || { echo "docker is not on this machine. Without it: make stack" >&2; exit 1; }
	@docker compose version >/dev/null 2>&1 || { echo "docker has no compose plugin here. Without it: make stack" >&2; exit 1; }
	@docker info >/dev/null 2>&1 || { echo "docker does not answer: start its daemon, or: make stack" >&2; exit 1; }

.env:
	@$(PYTHON) -m ops.stack.secrets

stack: $(VENV)/installed-dev
	@$(BIN)/python -m ops.stack $(STACK_ARGS)

test: $(VENV)/installed-dev services
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(VENV)/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

services: $(VENV)/installed-dev
	@$(BIN)/python -m tests.check_services

bench: $(VENV)/installed-dev
	@$(BIN)/python -m bench.speed

# DATA: a folder with locomo/ and beam/; BENCH_ARGS, say: --total 1M, --index weaviate, --embedder local.
bench-search: $(VENV)/installed-dev
	@$(BIN)/python -m bench.search_bench $(if $(DATA),"$(DATA)") --json bench-search.json $(BENCH_ARGS)

bench-extract: $(VENV)/installed-dev
	@$(BIN)/python -m bench.extract_quality $(if $(DATA),"$(DATA)") --json bench-extract.json $(BENCH_ARGS)

EXAMPLES ?= 1000
explore: $(VENV)/installed-dev
	@MEMLINE_MODEL_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/model $(PYTEST_ARGS)

chaos: $(VENV)/installed-dev
	@MEMLINE_CHAOS_FULL=1 $(BIN)/python -m pytest tests/chaos/test_lanes.py tests/chaos/test_bounded_growth.py
	@$(BIN)/python -m tests.chaos.matrix --write
	@$(BIN)/python -m tests.chaos.matrix --index provider --write
	@if command -v weaviate >/dev/null; then $(BIN)/python -m tests.chaos.matrix --index weaviate --write; \
		else echo "The matrix of weaviate was NOT run: it kills its server, so it needs a \`weaviate\` server binary on the PATH."; fi

clean:
	rm -rf $(VENV) .memline-demo .memline-stack dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "memline needs Python 3.11 or newer; name one with: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "$(PYTHON) can't make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }

# A stamp each for the plain and the developer's installation; the latter is more than the former.
$(VENV)/installed: pyproject.toml | $(BIN)/python
	@echo "Installing memline into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	@echo "Installing memline and what its tests need into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/installed
