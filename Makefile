# What builders and newcomers run. `make demo` and `make test` each set up everything they need on a fresh Debian machine with
# Python, make, cc and git: the virtual environment, the locked dependencies, and, as root, the system packages.
PYTHON ?= python3
BIN := .venv/bin
# Everything that answers within two minutes; e2e, Kafka and fault tests come with `make test`.
QUICK := -m "not e2e and not kafka and not slow"
# Other people's validators, clients and tools that judge the emulators, each kind in a virtual environment that pins nothing of ours.
JUDGES := .venv/judges/redfish/.installed .venv/judges/nvml_tools/.installed
# What benchmarks alone measure against, in the same way.
PEERS := .venv/peers/kafka/.installed .venv/peers/sse/.installed

# How many inputs each parser gets from `make fuzz`.
INPUTS ?= 1000000

.PHONY: help demo test check judges bench long fuzz format docs lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: .venv/.runtime  ## the main job on embedded defaults: no GPU, no broker, no root
	$(BIN)/forewarn demo

test: .venv/.development $(JUDGES) system  ## everything that CI runs; starts the services it needs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m forewarn.reference --check
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

check: .venv/.development  ## format, lint, types, import contracts, quick tests, documentation drift: under two minutes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m forewarn.reference --check
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder $(QUICK)

judges: $(JUDGES)  ## install the validators, clients and GPU tools of others that `make test` runs against the emulators

bench: .venv/.development $(PEERS) .venv/judges/nvml_tools/.installed  ## measure against peers, side by side; prints ratios, and at the end what missed its target
	@command -v prometheus >/dev/null && command -v victoria-metrics >/dev/null || deploy/system_packages.sh prometheus victoria-metrics
	@missed=; for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || missed="$$missed $$file"; done; \
		[ -z "$$missed" ] || { echo "missed a target:$$missed"; exit 1; }

long: .venv/.development  ## soaks, thousands of kills, sweeps: hours
	FOREWARN_TEST_LONG=1 $(BIN)/pytest -m "slow or e2e or kafka"

faults: .venv/.development  ## kill collectors, writers, the compactor and Kafka at random moments, then count rows: make faults N=300
	$(BIN)/python -m tests.faults $(or $(N),100)

fuzz: .venv/.development  ## a million inputs for each parser, from the tests' seeds and guided by coverage: hours
	FOREWARN_TEST_FUZZ=$(INPUTS) $(BIN)/pytest -n 2 tests/fuzz
	@$(MAKE) --no-print-directory .venv/judges/atheris/.installed
	for parser in exporter kernel-log sse report message; do \
		PYTHONPATH=$$(echo .venv/judges/atheris/lib/python*/site-packages) $(BIN)/python tests/fuzz/coverage_guided.py $$parser -runs=$(INPUTS) || exit 1; done

format: .venv/.development  ## bring the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/.development  ## print the generated references into docs/
	$(BIN)/python -m forewarn.reference

lock: .venv/.development  ## renew the lock files
	$(BIN)/uv pip compile --quiet --generate-hashes --universal --no-header --python-version 3.11 --extra all pyproject.toml deploy/build.in -o requirements.lock
	$(BIN)/uv pip compile --quiet --generate-hashes --universal --no-header --python-version 3.11 --extra all --group dev pyproject.toml deploy/build.in -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --generate-hashes --universal --no-header --python-version 3.11 deploy/installer.in -o deploy/installer.lock
	for kind in judges/redfish judges/nvml_tools judges/atheris peers/kafka peers/sse; do $(BIN)/uv pip compile --quiet --generate-hashes --universal --no-header --python-version 3.11 deploy/$$kind.in -o deploy/$$kind.lock || exit 1; done

clean:  ## remove the virtual environment and caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

system:
	@deploy/system_packages.sh

.venv/bin/pip:
	@$(PYTHON) -m venv .venv 2>/dev/null || { deploy/system_packages.sh python3-venv && $(PYTHON) -m venv --clear .venv; }

# uv installs in a quarter of pip's time; pip comes in where an index is configured for pip alone. $(1): environment, $(2): lock file
install = $(BIN)/uv pip install --quiet --python $(1) --no-deps --require-hashes -r $(2) || \
	$(BIN)/pip --python $(1) install --quiet --disable-pip-version-check --no-deps --require-hashes -r $(2)

.venv/.uv: .venv/bin/pip deploy/installer.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r deploy/installer.lock
	@touch $@

.venv/.runtime: .venv/.uv requirements.lock pyproject.toml
	@$(call install,.venv,requirements.lock)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv/.development: .venv/.uv requirements-dev.lock pyproject.toml
	@$(call install,.venv,requirements-dev.lock)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@ .venv/.runtime

.venv/%/.installed: deploy/%.lock | .venv/.development
	@$(BIN)/python -m venv --clear --without-pip $(@D)
	@$(call install,$(@D),$<)
	@touch $@
