"""``gpu``: CuPy's names, for tests of what kernels do on a GPU. In the simulator, only tests of few threads."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

SIMULATED = os.environ.get("REFIMPL_STANDIN_KERNELS") == "simulator"


def pytest_configure(config):
    config.addinivalue_line("markers", "big: too many threads for Numba's CUDA simulator")


def pytest_collection_modifyitems(config, items):
    """Leave float64 on a GPU to `make test-all`: it is the same bodies, each of which the stand-in compiles anew.

    In the simulator, run only what runs on a GPU.
    """
    there = [item for item in items if _is_on_gpu(item)]
    for item in there:
        if np.dtype(_parameters(item).get("dtype", "float32")) == np.float64:
            item.add_marker(pytest.mark.thorough)
    if SIMULATED:
        items[:] = there


def _parameters(item) -> dict:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _is_on_gpu(item) -> bool:
    return "gpu" in item.fixturenames or str(_parameters(item).get("place")).startswith("gpu")


@pytest.fixture
def gpu(cupy, request, monkeypatch):
    """CuPy's names: kernels of the project run in loops, in the simulator, or on a GPU (`make test-gpu`)."""
    if not SIMULATED:
        return cupy
    from kernels.cuda import kernel
    from kernels.exact_sum import cuda as exact_sum
    from kernels.rows import cuda_segments

    dtype = np.dtype(_parameters(request.node).get("dtype", "float32"))
    if request.node.get_closest_marker("big") or dtype == np.float64:
        pytest.skip("the simulator has a thread of Python for every thread of a GPU")
    # small, so that there are many blocks, and rows are walked in strides
    monkeypatch.setattr(kernel, "THREADS", 16)
    monkeypatch.setattr(kernel, "MOST_BLOCKS", 2)
    monkeypatch.setattr(exact_sum, "LANES", 4)
    for name, few in {"LANES": 2, "WARPS": 2, "READS": 2, "LONG": 3, "WORKERS": 2}.items():
        monkeypatch.setattr(cuda_segments, name, few)
    return cupy


@pytest.fixture(params=["host", "gpu"])
def place(request):
    """Where a kernel runs: NumPy, for Numba's version, or what ``gpu`` is. Arrays come back by ``to_numpy``."""
    return np if request.param == "host" else request.getfixturevalue("gpu")


def pytest_sessionfinish():
    """Tell, after a run in the simulator, for what arguments each kernel was run."""
    if "REFIMPL_KINDS_FILE" not in os.environ:
        return
    from kernels.cuda.kernel import Kernel

    modules = [module for name, module in sys.modules.items() if name.startswith("kernels.") and name.endswith(".cuda")]
    run = {f"{kernel.body.__module__}:{name}": sorted(kernel.loaded)
           for module in modules for name, kernel in vars(module).items() if isinstance(kernel, Kernel)}
    Path(os.environ["REFIMPL_KINDS_FILE"]).write_text(json.dumps(run))
