"""``gpu``: CuPy's names, for tests of what kernels do on a GPU: the stand-in, and CuPy itself where it finds a GPU."""

import importlib
import json
import os
import sys
from pathlib import Path

import pytest

STANDIN = Path(__file__).parents[1] / "device" / "standin"


def has_gpu() -> bool:
    """Return True if CuPy is installed and finds a GPU."""
    try:
        return importlib.import_module("cupy").is_available()
    except Exception:
        return False
    finally:
        forget()


def forget():
    """Take CuPy, or its stand-in, out of the imported modules; return them."""
    names = [name for name in sys.modules if name.split(".")[0] in ("cupy", "cupyx")]
    return {name: sys.modules.pop(name) for name in names}


def pytest_configure(config):
    config.addinivalue_line("markers", "big: too many threads for Numba's CUDA simulator")


@pytest.fixture(scope="session")
def standin_modules():
    """Return the stand-in's modules, by name; they are not left imported."""
    before, path = forget(), list(sys.path)
    sys.path.insert(0, str(STANDIN))
    try:
        importlib.import_module("cupy")
        return forget()
    finally:
        sys.path[:] = path
        sys.modules.update(before)


SIMULATED = os.environ.get("REFIMPL_STANDIN_KERNELS") == "simulator"
KINDS = ["standin", *(["cuda"] if not SIMULATED and has_gpu() else [])]


@pytest.fixture(params=KINDS)
def gpu(request, monkeypatch, standin_modules):
    """CuPy's names: kernels of the project run in loops, in the simulator, or on a GPU."""
    from kernels.cuda import kernel
    from kernels.exact_sum import cuda as exact_sum

    if SIMULATED and request.node.get_closest_marker("big"):
        pytest.skip("the simulator has a thread of Python for every thread of a GPU")
    if request.param == "cuda":
        return importlib.import_module("cupy")
    for name in forget():
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name, module in standin_modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    standin_modules["cupy._bodies"].install()
    if SIMULATED:  # small, so that there are many blocks, and rows are walked in strides
        monkeypatch.setattr(kernel, "THREADS", 16)
        monkeypatch.setattr(kernel, "MOST_BLOCKS", 2)
        monkeypatch.setattr(exact_sum, "LANES", 4)
    return standin_modules["cupy"]


def pytest_sessionfinish():
    """Tell, after a run in the simulator, for what arguments each kernel was run."""
    if "REFIMPL_KINDS_FILE" not in os.environ:
        return
    from kernels.cuda.kernel import Kernel

    modules = [module for name, module in sys.modules.items() if name.startswith("kernels.") and name.endswith(".cuda")]
    run = {f"{kernel.body.__module__}:{name}": sorted(kernel.loaded)
           for module in modules for name, kernel in vars(module).items() if isinstance(kernel, Kernel)}
    Path(os.environ["REFIMPL_KINDS_FILE"]).write_text(json.dumps(run))
