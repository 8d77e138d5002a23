# `make run` and `make test` are all one needs; the rest are their parts.
#   make run TREE=/some/folder ARGS='--nodes 8 --port 9080'
#   make unit ARGS='-k ranking'

PYTHON ?= /usr/bin/python3
TREE ?= $(CURDIR)
ARGS ?=
export PYTHON

.PHONY: help run test lint unit integration model acceptance requirements install clean
.NOTPARALLEL:

help: ## Say what can be made.
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

run: ## Start a cluster on this machine, hash a tree with it, stay until Ctrl-C.
	@scripts/install run
	@.venv/bin/mutirao up --demo '$(TREE)' $(ARGS)

test: lint unit integration model acceptance ## Check everything, as CI does.

install:
	@scripts/install test

lint: install ## Style, types and layers.
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache

unit: install ## Pure code, no servers.
	.venv/bin/python -m pytest tests/unit $(ARGS)

integration: install ## Real PostgreSQL and Redis, parts of the application.
	.venv/bin/python -m pytest tests/integration $(ARGS)

model: install ## The protocol's model, searched by spin.
	.venv/bin/python -m pytest tests/model $(ARGS)

acceptance: install ## Whole clusters of real processes, killed, frozen and cut off.
	.venv/bin/python -m pytest tests/acceptance $(ARGS)

requirements: ## Lock the newest versions of all dependencies (needs uv).
	@scripts/requirements

clean: ## Remove what the above have made; data of clusters stays.
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find app tests -name __pycache__ -type d -prune -exec rm -rf {} +
