# Every target works in a fresh clone: the first one to run makes .venv with the pinned versions.
# PYTHON chooses the interpreter (3.11, 3.12 or 3.13), TORCH another torch than the pinned one. Each
# has an environment of its own: make test PYTHON=python3.12, make test TORCH=2.14.1

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
BASE := .venv$(addprefix -,$(filter-out python3,$(notdir $(PYTHON))))
VENV := $(BASE)$(addprefix -torch-,$(TORCH))
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LIBRARIES := build/libraries/.installed
NOTEBOOKS := build/notebooks/.installed

# For the package and for what builds it: pip reads both from the environment.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Two of the dependencies look things up on the network unless told not to.
export HF_HUB_OFFLINE := 1
export JUPYTER_PLATFORM_DIRS := 1

.PHONY: help demo test lint tests test-sweeps test-crosses test-quick test-torch test-newer-torch patches-needed test-version versions lab notebooks bench sweep models callcost fairness auto libraries first-run notebooks-first-run docs screenshots test-gpu gpu format clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

# Made anew whenever the project's dependencies or their pins change.
$(BASE)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13) and "dynamo_ext needs Python 3.11, 3.12 or 3.13: make PYTHON=python3.12 …")'
	test -x $(BASE)/bin/python || $(PYTHON) -m venv $(BASE)
	$(BASE)/bin/python -m pip install -qq -c constraints.txt --editable '.[dev]'
	touch $@

ifdef TORCH
# A torch of its own with what torch needs; everything else is $(BASE)'s, which comes after it.
$(STAMP): $(BASE)/.installed
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	mkdir -p build
	grep -v '^torch==' constraints.txt > build/constraints-torch-$(TORCH).txt
	PIP_CONSTRAINT=build/constraints-torch-$(TORCH).txt $(BIN)/python -m pip install -qq torch==$(TORCH)
	shared=$$($(BASE)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	own=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	echo "import site; site.addsitedir('$$shared')" > $$own/everything-else.pth
	touch $@
endif

demo: $(STAMP) ## run notebooks/quickstart.ipynb, print its summary, leave build/quickstart.html
	$(BIN)/python notebooks/execute.py notebooks/quickstart.ipynb --html build/quickstart.html

test: $(STAMP) ## everything but the sweeps: lint, types, and every behaviour
	+@$(MAKE) --no-print-directory --jobs 2 lint tests

lint: $(STAMP) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Two files at a time, then what needs the machine to itself; both run, whatever the first finds.
# A test that ends its process is tried once more, not eight times.
# Threads that wait for one another sleep in the first, since four share two cores there.
# pytest ends with 5 where ARGS leave no test: an error only if neither half has one.
PYTEST := $(BIN)/python -m pytest --durations=50 --durations-min=1
PARALLEL := -n 2 --max-worker-restart 1 --dist loadfile

tests: $(STAMP) ## the suite without the sweeps; ARGS="-k onnxrt -x" goes to pytest
	@mkdir -p build; first=0; second=0; set -x; \
	OMP_WAIT_POLICY=passive $(PYTEST) -m "not sweep and not alone" $(PARALLEL) --junitxml build/tests.xml $(ARGS) || first=$$?; \
	$(PYTEST) -m "not sweep and alone" --junitxml build/tests-alone.xml $(ARGS) || second=$$?; \
	{ set +x; } 2>/dev/null; \
	case "$$first $$second" in "0 0" | "0 5" | "5 0") ;; *) exit 1 ;; esac

test-sweeps: $(STAMP) ## every engine on every model, operator and notebook, and engines together
	mkdir -p build
	OMP_WAIT_POLICY=passive $(PYTEST) -m sweep $(PARALLEL) --junitxml build/sweeps.xml $(ARGS)

CROSSED := tests/magics/test_effects_once.py tests/backends/engines/test_engines.py tests/backends/pipeline
test-crosses: ## the sweeps and what crosses cases with circumstances, whole: hours, before a release
	DYNAMO_EXT_WHOLE_CROSSES=1 $(MAKE) test-sweeps
	DYNAMO_EXT_WHOLE_CROSSES=1 $(MAKE) tests ARGS="$(CROSSED)"

QUICK := tests/analysis tests/backends/pipeline tests/capture/events tests/capture/report tests/test_records.py tests/widgets tests/test_import_directions.py
test-quick: $(STAMP) ## what is fast, for the loop of daily work
	OMP_WAIT_POLICY=passive $(PYTEST) $(QUICK) -m "not sweep and not alone" $(PARALLEL) -q $(ARGS)

lab: $(STAMP) ## JupyterLab on the notebooks
	$(BIN)/python -m jupyterlab --notebook-dir=notebooks

notebooks: $(STAMP) ## execute the notebooks and store their outputs, without widget state
	$(BIN)/python notebooks/execute.py --in-place notebooks/*.ipynb

bench: $(STAMP) $(LIBRARIES) $(NOTEBOOKS) ## every measurement, page by page; ARGS="--quick" for a few minutes of tiny models, "--full" for large batches
	$(BIN)/python -m benchmarks $(ARGS)

sweep: $(STAMP) ## torch's own operator samples through every engine; writes docs/operators.md
	$(BIN)/python -m benchmarks.operators --write docs/operators.md

models: $(STAMP) ## the model zoo through every CPU engine; writes docs/models.md
	$(BIN)/python -m benchmarks.models --write docs/models.md

callcost: $(STAMP) ## what one call of a tiny graph costs, by backend; writes docs/call-cost.md
	$(BIN)/python -m benchmarks.call_cost --write docs/call-cost.md

fairness: $(STAMP) ## how often a comparison finds what is not there, or misses 5 %; writes docs/fairness.md
	$(BIN)/python -m benchmarks.fairness --write docs/fairness.md

auto: $(STAMP) ## auto beside every backend alone over the model zoo; writes docs/auto.md
	$(BIN)/python -m benchmarks.auto --write docs/auto.md

# Beside the environment, and without what they need, so that no second torch comes with them.
$(LIBRARIES): $(STAMP) benchmarks/libraries/requirements.txt
	rm -rf build/libraries
	PIP_CONSTRAINT= $(BIN)/python -m pip install -qq --no-deps --target build/libraries -r benchmarks/libraries/requirements.txt
	touch $@

libraries: $(LIBRARIES) ## small models of libraries on PyPI through the engines; writes docs/libraries.md
	$(BIN)/python -m benchmarks.libraries --write docs/libraries.md

first-run: $(STAMP) ## first and later runs of cells that people write, hours; writes docs/first-run.md
	$(BIN)/python -m benchmarks.first_run --write docs/first-run.md $(ARGS)

# The notebooks, as the libraries' source distributions have them, beside what they import.
$(NOTEBOOKS): $(STAMP) benchmarks/notebooks/requirements.txt benchmarks/notebooks/sources.txt
	rm -rf build/notebooks
	PIP_CONSTRAINT= $(BIN)/python -m pip install -qq --no-deps --target build/notebooks/site-packages -r benchmarks/notebooks/requirements.txt
	$(BIN)/python -m pip download -qq --no-deps --no-binary :all: --no-build-isolation -d build/notebooks -r benchmarks/notebooks/sources.txt
	for source in build/notebooks/*.tar.gz; do tar -xzf $$source -C build/notebooks || exit 1; done
	touch $@

notebooks-first-run: $(NOTEBOOKS) ## whole notebooks of libraries, plainly and under %%dynamo, hours; writes docs/notebooks-first-run.md
	$(BIN)/python -m benchmarks.notebooks --write docs/notebooks-first-run.md $(ARGS)

docs: $(STAMP) ## the documentation as a site, with the notebooks; leaves build/site
	$(BIN)/python -m mkdocs build --quiet
	$(BIN)/python -m nbconvert --to html --log-level ERROR --output-dir build/site/notebooks notebooks/*.ipynb

SHOTS = build/screenshots
screenshots: $(STAMP) ## the pictures in docs/images, as the browser tests take them in JupyterLab
	$(BIN)/python -m pytest tests/browser/test_readme_in_lab.py tests/browser/test_report_in_lab.py
	cp $(SHOTS)/readme-report.png docs/images/report.png
	cp $(SHOTS)/1-code-light.png docs/images/code.png
	cp $(SHOTS)/2-graphs-light.png docs/images/graphs.png
	cp $(SHOTS)/3-guards-light.png docs/images/guards.png
	cp $(SHOTS)/5-timing-light.png docs/images/timing.png
	cp $(SHOTS)/readme-compare.png docs/images/compare.png

# What depends on torch's private names, cells that run traced and as they are, and what needs a
# CUDA build of torch, which the pinned one need not be.
CONTRACT := tests/torch_private tests/capture/torch_private tests/magics/test_diff*.py tests/backends/engines/inductor
test-torch: $(STAMP) ## private names of torch's and the corpus, for another torch: TORCH=2.14.1
	mkdir -p build
	OMP_WAIT_POLICY=passive $(PYTEST) $(CONTRACT) -m "not sweep" $(PARALLEL) --junitxml build/tests-torch-$(TORCH).xml $(ARGS)

test-newer-torch: ## the same for a torch that is newer than the pinned one
	$(MAKE) test-torch TORCH=2.14.1

patches-needed: $(STAMP) ## which patches of torch's tracing no test fails without, for another torch: TORCH=2.14.1
	OMP_WAIT_POLICY=passive $(BIN)/python -m tests.patches_needed

VERSIONS := 2.11.0 2.12.1 2.13.0 2.14.1 2.15.0
WIDER := $(CONTRACT) tests/capture tests/magics tests/backends/pipeline tests/backends/engines/onnxrt tests/measure tests/auto
versions: ## the tests that depend on torch on each version of it; writes docs/versions.md
	for version in $(VERSIONS); do $(MAKE) test-version TORCH=$$version || exit 1; done
	$(BASE)/bin/python -m benchmarks.torch_versions --write docs/versions.md

test-version: $(STAMP)
	mkdir -p build/versions
	-OMP_WAIT_POLICY=passive $(PYTEST) $(WIDER) -m "not sweep" $(PARALLEL) --junitxml build/versions/$(TORCH).xml $(ARGS)
	$(BIN)/python -m benchmarks.torch_versions --add build/versions/$(TORCH).xml

test-gpu: $(STAMP) ## the tests that need a CUDA device
	$(BIN)/python -m pytest tests/gpu $(ARGS)

# A GPU machine may have a torch of its own and no network: nothing is made or fetched here.
GPU_PYTHON ?= python3
gpu: ## on a GPU, with the packages of GPU_PYTHON and the wheels in WHEELS: tests, comparisons, docs/gpu-verification.md
	$(if $(WHEELS),PIP_CONSTRAINT= $(GPU_PYTHON) -m pip install -q --no-index --no-deps --upgrade --target build/gpu-site $(WHEELS)/*.whl)
	PYTHONPATH=$(CURDIR)$(if $(WHEELS),:$(CURDIR)/build/gpu-site)$(addprefix :,$(PYTHONPATH)) $(GPU_PYTHON) -m benchmarks.gpu --write docs/gpu-verification.md $(ARGS)

format: $(STAMP) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove .venv and everything that is built
	rm -rf .venv .venv-* build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
