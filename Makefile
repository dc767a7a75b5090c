# Two commands do everything: `make demo` and `make test`. Both install what is missing first.
SCALE ?= 1
VENV := .venv
PYTHON := $(VENV)/bin/python
PENSTOCK := $(VENV)/bin/penstock
JVM_SOURCES := $(shell find jvm -type f -not -path '*/target/*' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup demo test packages lines check format lock wheel clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## TPC-DS end to end on a lake of its own, with a report (SCALE=0.1 for the impatient)
	$(PENSTOCK) demo --scale $(SCALE)

test: setup packages ## The fast suite and the integration tests; as root, also those that need root or a Ceph
	mvn -f jvm/pom.xml -B -ntp -q verify
	$(PYTHON) -m pytest

packages: setup ## As root: install the Ceph that tests start; otherwise they are skipped and say why
	@[ "$$(id -u)" != 0 ] || $(PENSTOCK) lake ceph install --yes || echo "The tests of a real Ceph will be skipped"

lines: setup ## The skipping plug-in on Spark's other lines (downloads a pyspark of each, some 400 MB)
	$(PYTHON) scripts/spark_lines.py

check: setup ## Format, lint and types, both languages
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	mvn -f jvm/pom.xml -B -ntp -q spotless:check

format: setup ## Rewrite the sources in the house's format
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .
	mvn -f jvm/pom.xml -B -ntp -q spotless:apply

setup: build/setup.stamp ## Install what is missing: JDK 17, Maven, the virtual environment, the jars

build/setup.stamp: scripts/bootstrap.sh requirements/dev.txt pyproject.toml $(JVM_SOURCES)
	scripts/bootstrap.sh
	@mkdir -p build && touch $@

lock: ## Resolve the locked requirements anew (needs uv)
	uv pip compile --universal --generate-hashes -q pyproject.toml --no-emit-index-url --no-header --python-version 3.10 -o requirements/runtime.txt
	uv pip compile --universal --generate-hashes -q pyproject.toml --group dev --no-emit-index-url --no-header --python-version 3.10 -o requirements/dev.txt

wheel: setup ## Build the wheel with its jars into dist/
	$(PYTHON) -m hatchling build -t wheel

clean: ## Remove what was built; downloads and data stay
	rm -rf build dist src/penstock/jars/*.jar src/penstock/jars/*.json src/penstock/jars/lab jvm/target jvm/*/target
