# PowerTrain for Kubernetes. `make` lists the targets. Each sets up what it needs, once, in ${XDG_CACHE_HOME:-~/.cache}/powertrain.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON3 ?= python3
PY := .venv/bin/python
# numpy's thread pools only get in each other's way on small machines.
export OMP_NUM_THREADS ?= 1

##@ General

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make \033[36m<target>\033[0m\n"} \
	  /^[a-zA-Z0-9_-]+:.*?##/ {printf "  \033[36m%-14s\033[0m %s\n", $$1, $$2} /^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

# `make demo --keep` is taken by make itself (--keep-going); it is meant for the demo.
DEMO_ARGS = $(ARGS) $(if $(findstring k,$(firstword -$(MAKEFLAGS))),--keep)

.PHONY: demo
demo: setup ## A live demo: a cluster, three simulated Jetsons, TrainingJobs, one cap for all (ARGS: --keep leaves it up, --fast, --no-site).
	@$(PY) -m powertrain_devcluster.demo $(DEMO_ARGS)

.PHONY: walkthrough
walkthrough: setup ## A walkthrough of the commands on generated data, without a cluster.
	$(PY) -m powertrain_cli.walkthrough

##@ Development

.PHONY: setup
setup: ## The Python environment without torch (every target below does this by itself).
	@$(PYTHON3) hack/environment.py

.PHONY: setup-nn
setup-nn:
	@$(PYTHON3) hack/environment.py nn

.PHONY: format
format: setup ## Format the code.
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

.PHONY: lint
lint: setup ## Formatting, lint, spelling, wording, names, types and import rules.
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m codespell_lib .
	$(PY) hack/check_prose.py
	$(PY) hack/check_names.py
	$(PY) hack/check_types.py
	$(PY) -c 'from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_logo=True))'

.PHONY: manifests
manifests: setup ## Generate what is generated: CRDs and reference docs.
	$(PY) hack/generate_crds.py
	$(PY) hack/generate_chart.py
	$(PY) hack/generate_docs.py

.PHONY: version-bump
version-bump: setup ## Write a new version everywhere, with a section in the changelog (VERSION=1.2.3).
	$(PY) hack/version.py $(VERSION)

##@ Tests

.PHONY: test
test: setup-nn lint docs ## Everything: lint, docs, and all levels of tests that this machine can run.
	$(PY) hack/test_levels.py

.PHONY: test-unit
test-unit: setup ## Fast tests without torch.
	$(PY) hack/test_levels.py unit

.PHONY: prepare
prepare: setup ## Build and download what the cluster tests need (once; `make test` does it by itself).
	$(PY) -m powertrain_devcluster.builds.prepare

.PHONY: test-cluster
test-cluster: setup ## Tests on a real API server, controller manager and scheduler.
	$(PY) hack/test_levels.py cluster

.PHONY: test-node
test-node: setup ## Tests with real pods on a real kubelet (needs root).
	$(PY) hack/test_levels.py node

.PHONY: test-chart
test-chart: setup ## Tests of the chart by real Helm, on a real API server, with a real Prometheus.
	$(PY) hack/test_levels.py chart

.PHONY: test-k3s
test-k3s: setup ## Tests on a real k3s with two nodes (needs root; builds k3s once, 8 to 15 minutes).
	$(PY) hack/test_levels.py k3s

.PHONY: test-versions
test-versions: setup ## Once per release: CRDs, admission policies and chart on the oldest supported Kubernetes.
	$(PY) hack/test_versions.py

.PHONY: test-browser
test-browser: setup ## Tests of the report page in a real headless browser.
	$(PY) hack/test_levels.py browser

.PHONY: test-kernel
test-kernel: setup ## Tests of the agent on a real arm64 kernel with a board's knobs, under QEMU.
	$(PY) hack/test_levels.py kernel

##@ Measure and publish

.PHONY: bench
bench: setup-nn ## Benchmarks: the tables of docs/ with their ratios, and JSON in benchmarks/results.
	$(PY) -m benchmarks

.PHONY: evaluate
evaluate: setup-nn ## The study of docs/evaluation: tables and figures, at most 20 minutes; stop and resume as you like.
	$(PY) -m benchmarks.evaluate $(EVALUATE)

.PHONY: pictures
pictures: setup ## The pictures of the report page in docs/images, from a run on a simulated board.
	.venv/bin/powertrain tune --power 22 --device sim:orin-agx --time-scale 4 --until-chosen --report build/run.html \
	  -- powertrain-simtrain mobilenet-v3
	$(PY) hack/report_pictures.py build/run.html

.PHONY: dashboards-preview
dashboards-preview: setup ## Pictures of the Grafana dashboards, by a real Grafana (built once, 15 to 35 minutes) with recorded jobs.
	@$(PY) -m powertrain_devcluster.preview $(ARGS)

.PHONY: docs
docs: setup ## Build the documentation, strictly.
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

.PHONY: docs-publish
docs-publish: setup ## Commit the documentation of this version to the local branch gh-pages (ARGS: --push).
	$(PY) hack/publish_docs.py $(ARGS)

.PHONY: release-dry-run
release-dry-run: setup ## Everything that a release has, into dist/; publishes nothing (ARGS: --only PART,…, --key GPG_KEY).
	$(PY) hack/release $(ARGS)

.PHONY: release-check
release-check: setup ## Make the release twice, the second time without cached images, and compare the checksums.
	$(PY) hack/release --twice $(ARGS)

.PHONY: clean
clean: ## Remove what was built in this folder (the cache stays).
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
