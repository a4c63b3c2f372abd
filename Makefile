# The only entry points. `make serve` and `make test` start from nothing but Python (3.11+) and make.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLIENTS := trl inspect openreward crewai_tools mcp_hosts langchain mcp_hosts_1 fastmcp ors_sdk skyrl_gym openenv openenv_0_4 verifiers verifiers_openenv verifiers_0_3 bfcl textarena reward_doctor deploy_files package_checks
EXAMPLES := training skyrl_gym verifiers_0_3
GRADERS := math_verify inspect_math mathruler
WRITERS := trackers
TOOLS := audit site
JOBS ?= 3
SYSTEM_PACKAGES := bubblewrap git
TEST_PACKAGES := $(SYSTEM_PACKAGES) chromium curl default-jdk-headless firefox-esr haproxy postgresql prometheus systemd
CORE_TESTS := tests/properties $(addprefix tests/unit/, client doors environments evaluation export rewards sessions store)
TASKS ?=
WORLDS := $(patsubst requirements/worlds/%.lock,%,$(wildcard requirements/worlds/*.lock))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export ORS_TEST_VENVS ?= $(CURDIR)/.venvs
export NO_MKDOCS_2_WARNING := 1
export ORS_TEST_NODE ?= $(CURDIR)/.node

.PHONY: help
help: ## This list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: serve
serve: $(VENV)/.runtime $(patsubst %,$(VENV)/.world-%,$(filter $(WORLDS),$(TASKS))) ## Serve the bundled tasks, or TASKS="a b", on 127.0.0.1:8080 (ARGS="--port 9000").
	scripts/system_packages.sh --try $(SYSTEM_PACKAGES)
	python=$(ORS_TEST_VENVS)/alfworld/bin/python; \
	if [ -x $$python ]; then export ORS_ALFWORLD_PYTHON=$${ORS_ALFWORLD_PYTHON:-$$python}; fi; \
	exec $(BIN)/ors-server serve $(TASKS) $(ARGS)

.PHONY: test
test: ## From nothing to a verdict: lint, every test but the stress ones.
	$(MAKE) --no-print-directory -j$(JOBS) packages node clients
	$(MAKE) --no-print-directory worlds
	scripts/test.sh --lint

.PHONY: coverage
coverage: packages $(VENV)/.dev clients node worlds ## The same tests and the floor on coverage (PYTEST_ADDOPTS holds more options).
	scripts/test.sh --coverage

.PHONY: unit
unit: $(VENV)/.dev ## The quick tests that need nothing but Python, bubblewrap and git.
	scripts/system_packages.sh $(SYSTEM_PACKAGES)
	scripts/test.sh -m "not stress and not external and not slow" tests/unit tests/contract

.PHONY: core
core: $(VENV)/.dev ## The tests that need nothing of Linux: the core, on macOS too.
	$(BIN)/pytest $(CORE_TESTS)

.PHONY: stress
stress: packages $(VENV)/.dev clients $(addprefix $(ORS_TEST_VENVS)/, training/.installed $(WRITERS:%=%/.installed)) node worlds ## Many sessions, cancellation, leaks, faults; starts a Docker engine of its own.
	scripts/docker_engine.sh .docker-image $(BIN)/pytest -m stress

.PHONY: examples
examples: $(VENV)/.dev $(EXAMPLES:%=$(ORS_TEST_VENVS)/%/.installed) ## Run examples/: training with the real packages, on a CPU.
	$(BIN)/pytest -m "stress or external" tests/stress/test_examples.py tests/clients/test_example_rollouts.py

.PHONY: lint
lint: $(VENV)/.dev node ## Every static check.
	scripts/lint.sh

.PHONY: format
format: $(VENV)/.dev ## Rewrite the code as the lint wants it, where that is mechanical.
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(VENV)/.dev $(ORS_TEST_VENVS)/openreward/.installed $(GRADERS:%=$(ORS_TEST_VENVS)/%/.installed) worlds ## Speed and memory, as ratios in one run (ARGS="imports --json").
	scripts/system_packages.sh wrk postgresql
	ORS_ALFWORLD_PYTHON=$${ORS_ALFWORLD_PYTHON:-$(ORS_TEST_VENVS)/alfworld/bin/python} $(BIN)/python -m bench $(ARGS)

.PHONY: docs
docs: $(VENV)/.dev clients worlds ## Check that every example in the documents runs.
	ORS_TEST_PREPARED=0 $(BIN)/pytest -m "stress or not stress" tests/docs

.PHONY: site
site: $(ORS_TEST_VENVS)/site/.installed ## Build the site of the documents in build/site; open its index.html.
	$(ORS_TEST_VENVS)/site/bin/mkdocs build

.PHONY: assets
assets: $(VENV)/.dev node ## Copy what the console loads from npm into the package, with licences and hashes.
	$(BIN)/python scripts/assets.py $(ORS_TEST_NODE)

.PHONY: dist
dist: $(VENV)/.dev ## Build the distributions in dist.
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m build --no-isolation --outdir dist packages/client

.PHONY: sbom
sbom: $(ORS_TEST_VENVS)/audit/.installed ## Write what the runtime lock pins as CycloneDX, build/sbom.cdx.json (needs the network).
	mkdir -p build
	$(ORS_TEST_VENVS)/audit/bin/pip-audit --require-hashes --disable-pip --progress-spinner off \
	  -r requirements/runtime.lock -f cyclonedx-json -o build/sbom.cdx.json

.PHONY: audit
audit: $(ORS_TEST_VENVS)/audit/.installed ## Look for known vulnerabilities in what the locks pin (needs the network).
	scripts/audit.sh $(ORS_TEST_VENVS)/audit/bin/pip-audit

.PHONY: matrix
matrix: packages worlds ## The unit tests on every Python from 3.11 to 3.14 that this machine has.
	scripts/matrix.sh $(ARGS)

.PHONY: lock
lock: $(VENV)/.dev ## Compile the lock files again.
	scripts/lock.sh $(ARGS)

.PHONY: clean
clean: ## Remove everything that make made.
	rm -rf $(VENV) .venvs .node .docker-image build dist .coverage .coverage.* htmlcov \
	  .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

# Environments. Each stamp stands for an installation that a lock file describes, and holds the checksum of its
# prerequisites: what became younger without a change is not installed again.
INSTALL_ONCE = scripts/install_once.sh $@ $^ --

.PHONY: venv
venv: $(VENV)/.dev ## The development environment alone, in .venv.

.PHONY: clients
clients: $(CLIENTS:%=$(ORS_TEST_VENVS)/%/.installed) $(ORS_TEST_VENVS)/site/.installed ## The real clients' environments and the site's, in .venvs.

.PHONY: packages
packages: | $(BIN)/python ## The system's packages that tests need, where they may be installed.
	scripts/system_packages.sh $(TEST_PACKAGES)

.PHONY: worlds
worlds: $(WORLDS:%=$(VENV)/.world-%) ## What the bundled environments need that play another program, in .venv, .venvs and of the system.

.PHONY: node
node: $(ORS_TEST_NODE)/.installed ## The Node programs that tests and lint run, in .node.

$(BIN)/python:
	PYTHON=$(PYTHON) scripts/make_venv.sh $(VENV)

$(VENV)/.locked: $(BIN)/python requirements/runtime.lock requirements/build.lock
	$(INSTALL_ONCE) $(BIN)/python -m pip install -q --no-deps --require-hashes -r requirements/runtime.lock -r requirements/build.lock

# Earlier versions were the distribution ors-server; removed after this one, it would take the command along.
$(VENV)/.runtime: $(VENV)/.locked pyproject.toml
	$(INSTALL_ONCE) bash -c '$(BIN)/python -m pip uninstall -q -y ors-server 2>/dev/null && \
	  $(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .'

$(VENV)/.installer: $(VENV)/.locked requirements/install.lock
	$(INSTALL_ONCE) $(BIN)/python -m pip install -q --no-deps --require-hashes -r requirements/install.lock

$(VENV)/.dev: $(VENV)/.installer requirements/dev.lock | $(VENV)/.runtime
	$(INSTALL_ONCE) scripts/install_locked.sh $(VENV) requirements/dev.lock

$(VENV)/.world-%: requirements/worlds/%.lock scripts/install_world.sh | $(VENV)/.runtime
	$(INSTALL_ONCE) scripts/install_world.sh $(VENV) $*

$(ORS_TEST_VENVS)/%/.installed: requirements/clients/%.lock scripts/make_locked.sh | $(VENV)/.installer
	$(INSTALL_ONCE) env PYTHON=$(PYTHON) scripts/make_locked.sh $< $(@D)

$(ORS_TEST_VENVS)/training/.installed: requirements/training/training.lock scripts/make_training.sh | $(VENV)/.installer
	$(INSTALL_ONCE) env PYTHON=$(PYTHON) scripts/make_training.sh $< $(@D)

$(TOOLS:%=$(ORS_TEST_VENVS)/%/.installed): $(ORS_TEST_VENVS)/%/.installed: requirements/%.lock scripts/make_locked.sh | $(VENV)/.installer
	$(INSTALL_ONCE) env PYTHON=$(PYTHON) scripts/make_locked.sh $< $(@D)

$(ORS_TEST_NODE)/.installed: requirements/node/package-lock.json | $(VENV)/.dev
	$(INSTALL_ONCE) scripts/make_node.sh $(ORS_TEST_NODE)
