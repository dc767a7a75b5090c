# Two commands do everything: `make demo` and `make test`. Both install what is missing first.
SCALE ?= 1
WORKERS ?= 2
N ?= 50
BUSY ?= 2
VENV := .venv
PYTHON := $(VENV)/bin/python
PENSTOCK := $(VENV)/bin/penstock
PYTEST = $(PYTHON) -m pytest $(ARGS)
PARALLEL = -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
MAVEN := mvn -f jvm/pom.xml -B -ntp -q
JVM_SOURCES := $(shell find jvm -type f -not -path '*/target/*' -not -path '*/src/test/*' 2>/dev/null)
JVM_TESTS := $(shell find jvm -type f -path '*/src/test/*' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-unit test-jvm test-integration test-system test-browser test-stores test-kubernetes
.PHONY: suites-beside pytest-beside
.PHONY: test-faults test-chaos test-lab test-spark test-all test-repeat coverage browser trino stores lines check docs format lock wheel clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## TPC-DS end to end on a lake of its own, with a report (SCALE=0.1 for the impatient)
	$(PENSTOCK) demo --scale $(SCALE)

# Each target takes ARGS for pytest: make test-system ARGS="-k commit". With ARGS, `test` leaves out the JVM's suites.
# Both languages run side by side, since each leaves a core idle at times; no jar is written while applications run.
# Python's tests, which wait for servers and timers, go first: the suites of the JVM fill what they leave.
# The suites write to a file, since Spark's errors, which tests cause on purpose, would carry away pytest's failures.
test: setup browser trino $(if $(ARGS),,build/test-classes.stamp) ## Everything that needs no store, Kubernetes or fault injection: what a change must pass
	$(MAKE) --no-print-directory --keep-going --jobs 2 $(if $(ARGS),,suites-beside) pytest-beside

suites-beside:
	@echo "The JVM's suites write to build/suites.log"
	@nice -n 15 $(MAVEN) test -pl '!bundle,!workloads' > build/suites.log 2>&1 || { tail -n 40 build/suites.log; \
	  grep -A 3 -E '\*\*\* (FAILED|ABORTED) \*\*\*' jvm/*/target/surefire-reports/TestSuite.txt; false; }
	@grep -h -E '^(Suites|Tests): ' build/suites.log

pytest-beside:
	$(PYTEST) $(PARALLEL) tests/unit tests/integration tests/system tests/browser

test-unit: setup ## Python's unit tests
	$(PYTEST) $(PARALLEL) tests/unit

test-jvm: setup ## The JVM's suites: make test-jvm ARGS="-pl filesystem -Dsuites=io.penstock.fs.locality.HashRingTest"
	$(MAVEN) verify $(ARGS)

test-integration: setup ## Tests with one real server: PostgreSQL, the embedded store, the HTTP service
	$(PYTEST) $(PARALLEL) tests/integration

test-system: setup trino ## Spark on the embedded lake
	$(PYTEST) $(PARALLEL) tests/system

test-browser: setup browser ## Console and reports in a real browser
	$(PYTEST) $(PARALLEL) tests/browser

test-stores: setup stores ## A real Ceph (as root) and a real HDFS
	$(MAVEN) test-compile -pl filesystem
	$(PYTEST) tests/stores

test-kubernetes: setup ## A real Kubernetes: PENSTOCK_TEST_CLUSTER names its cluster file, or kind is started
	$(PYTHON) scripts/with_kubernetes.py $(PYTEST) tests/kubernetes

test-faults: setup ## Applications under faults: the part of test-chaos that changes in Python need
	$(PYTEST) tests/chaos

test-chaos: setup ## Applications under faults, and the long run of fuzzers and models
	$(PYTEST) tests/chaos
	$(MAVEN) verify -pl filesystem,skipping -Pfuzz

test-lab: setup trino ## The lab's workloads: their own suites, and on real clusters
	$(if $(ARGS),,$(MAVEN) test -pl workloads -am -DwildcardSuites=io.penstock.workloads)
	$(PYTEST) $(PARALLEL) tests/lab

test-spark: setup ## Spark's own test suites over Penstock, a short list; ARGS=-Dpenstock.suites=all runs the long one
	$(MAVEN) verify -Pspark-suites -pl spark-suites -am $(ARGS)

test-all: test test-stores test-kubernetes test-chaos test-lab test-spark ## All of the above

test-repeat: setup ## A test many times under load: make test-repeat TEST=tests/system/test_commits.py N=50
	$(PYTHON) scripts/repeat_test.py --times $(N) --busy $(BUSY) $(TEST)

coverage: setup browser trino ## Statements and branches that `make test` reaches, by package, both languages
	rm -rf build/coverage && mkdir -p build/coverage
	$(MAVEN) verify -Pcoverage
	$(PYTHON) -m coverage run -m pytest $(ARGS) $(PARALLEL) tests/unit tests/integration tests/system tests/browser
	$(PYTHON) -m coverage combine -q && $(PYTHON) -m coverage json -q -o build/coverage/python.json
	$(PYTHON) scripts/coverage_report.py --python build/coverage/python.json --jacoco jvm/*/target/site/jacoco/jacoco.csv --json build/coverage/packages.json

browser: # Chromium for tests of pages
	@scripts/install_packages.sh chromium:chromium

trino: setup # The server of the engine, 540 MB to download
	@$(PENSTOCK) engines install trino --yes

stores: # What tests of stores start: Ceph (root) and fio
	@scripts/install_packages.sh fio:fio
	@[ "$$(id -u)" != 0 ] || $(PENSTOCK) lake ceph install --yes

lines: setup ## The skipping plug-in on Spark's other lines (downloads a pyspark of each, some 400 MB)
	$(PYTHON) scripts/spark_lines.py

check: setup docs ## Format, lint, layers and types, both languages, and the documents' links
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/mypy
	$(MAVEN) spotless:check -Pspark-suites

docs: setup ## The documents as a site in build/site; a broken link or anchor is an error
	$(VENV)/bin/zensical build --strict --clean

format: setup ## Rewrite the sources in the house's format
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .
	$(MAVEN) spotless:apply -Pspark-suites

.PHONY: reference
reference: setup ## Write the pages of docs/reference that follow from the code
	$(PYTHON) -m scripts.make_reference

setup: build/setup.stamp ## Install what is missing: JDK 17, Maven, the virtual environment, the jars

build/setup.stamp: scripts/bootstrap.sh requirements/dev.txt pyproject.toml $(JVM_SOURCES)
	scripts/bootstrap.sh
	@mkdir -p build && touch $@

# With the plugins that run suites: nothing is downloaded while they run.
build/test-classes.stamp: build/setup.stamp $(JVM_TESTS)
	$(MAVEN) test -DskipTests
	@touch $@

lock: ## Resolve the locked requirements anew (needs uv)
	uv pip compile --universal --generate-hashes -q pyproject.toml --all-extras --no-emit-index-url --no-header --python-version 3.10 -o requirements/runtime.txt
	uv pip compile --universal --generate-hashes -q pyproject.toml --all-extras --group dev --no-emit-index-url --no-header --python-version 3.10 -o requirements/dev.txt

wheel: setup ## Build the wheel with its jars into dist/
	$(PYTHON) -m hatchling build -t wheel

clean: ## Remove what was built; downloads and data stay
	rm -rf .cache build dist src/penstock/jars/*.jar src/penstock/jars/*.json src/penstock/jars/lab jvm/target jvm/*/target
