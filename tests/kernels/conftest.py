"""``gpu``: CuPy's names, for tests of what kernels do on a GPU. In the simulator, only tests of few threads.

The helper of several of these tests, ``exact_images``, is a module beside them.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
SIMULATED = os.environ.get("REFIMPL_STANDIN_KERNELS") == "simulator"


def pytest_configure(config):
    config.addinivalue_line("markers", "big: too many threads for Numba's CUDA simulator")


def pytest_collection_modifyitems(items):
    """Leave float64 on a GPU to `make test-all`: it is the same bodies, each of which the stand-in compiles anew."""
    for item in items:
        if "gpu" in item.fixturenames and hasattr(item, "callspec"):
            if np.dtype(item.callspec.params.get("dtype", "float32")) == np.float64:
                item.add_marker(pytest.mark.thorough)


@pytest.fixture
def gpu(cupy, request, monkeypatch):
    """CuPy's names: kernels of the project run in loops, in the simulator, or on a GPU (`make test-gpu`)."""
    if not SIMULATED:
        return cupy
    from kernels.cuda import kernel
    from kernels.exact_sum import cuda as exact_sum
    from kernels.rows import cuda_segments

    dtype = request.node.callspec.params.get("dtype", "float32") if hasattr(request.node, "callspec") else "float32"
    if request.node.get_closest_marker("big") or np.dtype(dtype) == np.float64:
        pytest.skip("the simulator has a thread of Python for every thread of a GPU")
    # small, so that there are many blocks, and rows are walked in strides
    monkeypatch.setattr(kernel, "THREADS", 16)
    monkeypatch.setattr(kernel, "MOST_BLOCKS", 2)
    monkeypatch.setattr(exact_sum, "LANES", 4)
    for name, few in {"LANES": 2, "WARPS": 2, "READS": 2, "LONG": 3, "WORKERS": 2}.items():
        monkeypatch.setattr(cuda_segments, name, few)
    return cupy


def pytest_sessionfinish():
    """Tell, after a run in the simulator, for what arguments each kernel was run."""
    if "REFIMPL_KINDS_FILE" not in os.environ:
        return
    from kernels.cuda.kernel import Kernel

    modules = [module for name, module in sys.modules.items() if name.startswith("kernels.") and name.endswith(".cuda")]
    run = {f"{kernel.body.__module__}:{name}": sorted(kernel.loaded)
           for module in modules for name, kernel in vars(module).items() if isinstance(kernel, Kernel)}
    Path(os.environ["REFIMPL_KINDS_FILE"]).write_text(json.dumps(run))
