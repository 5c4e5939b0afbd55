"""How the stand-in runs the project's own kernels (``kernels.cuda``): the very bodies, one element after another.

By loops that Numba compiles, with every index checked, from the last element to the first (a kernel must not care); or,
with REFIMPL_STANDIN_KERNELS=simulator and NUMBA_ENABLE_CUDASIM=1, by Numba's CUDA simulator: blocks, threads, shared
memory and all. The loops' source is written to a file, so that Numba can keep what it compiled.
"""

import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from textwrap import indent

from cupy import _touched, standin
from cupy._array import SCALARS, unwrap

ELEMENT = """
def loops(rows_, columns_, {names}):
    for row_ in range(rows_ - 1, -1, -1):
        for column_ in range(columns_ - 1, -1, -1):
            body(row_, column_, {names})
"""

MANY = """
def loops(rows_, columns_, {names}):
    for number_ in range(rows_ - 1, -1, -1):
        for place_ in range(columns_ - 1, -1, -1):
"""

ROW = """
def loops(rows_, lanes_, {names}):
    partial_ = np.empty(lanes_, np.{partial})
    for row_ in range(rows_ - 1, -1, -1):
        for lane_ in range(lanes_):
            partial_[lane_] = body(row_, lane_, lanes_, {names})
        half_ = lanes_ // 2
        while half_ > 0:
            for lane_ in range(half_):
                partial_[lane_] = {fold}
            half_ //= 2
        finish(row_, partial_[0], {names})
"""

HEAD = """
import numpy as np
from kernels.compiled import compiled, inlined
from {module} import {name} as kernel

body = {body}(kernel.body)
finish = kernel.finish and inlined(kernel.finish)


@compiled(boundscheck=True, error_model="python")"""


def install():
    """Let ``kernels.cuda`` launch its kernels here, if the project is importable."""
    try:
        from kernels.cuda import kernel, product
    except ImportError:
        return
    simulated = os.environ.get("REFIMPL_STANDIN_KERNELS") == "simulator"
    kernel.load, product.multiply = simulator if simulated else loops, multiply


def multiply(left, right, out, kept):
    """Stand for ``kernels.cuda.product.multiply``: it refuses what cuBLAS would misread."""
    from cupy import cublas
    from kernels.cuda.product import layout

    for matrix in (left, right, out):
        layout(matrix)
    if not kept:
        unwrap(out)[...] = 0  # cuBLAS does not read what it does not keep
    cublas.gemm("N", "N", left, right, out=out, beta=float(kept))


def on_host(arguments, kinds):
    """Return the arguments as the body takes them; what a GPU could not take is refused."""
    ndarray = sys.modules["cupy"].ndarray  # of the stand-in that is imported now: tests import it anew
    given = []
    for one, kind in zip(arguments, kinds, strict=True):
        if not kind.endswith("*"):
            if not isinstance(one, SCALARS):
                raise TypeError(f"a kernel takes arrays on the device and scalars, not {type(one)}")
            given.append(one)
            continue
        if type(one) is not ndarray:
            raise TypeError(f"a kernel takes arrays on the device, not {type(one)}")
        if not one.flags.c_contiguous:
            raise ValueError(f"a kernel takes C-contiguous arrays, not {one.shape} with strides {one.strides}")
        given.append(one._host.reshape(-1))
    return given


def loops(kernel, kinds):
    """Return function(grid, block, arguments) that runs the body in loops."""
    from kernels.compiled import CUDA_SOURCES, digest

    folder = Path(tempfile.gettempdir()) / f"refimpl-standin-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    many = getattr(kernel, "branches", "")  # these call the body several times: inlined, it would be compiled for each
    text = HEAD.format(module=kernel.body.__module__, name=kernel.name,
                       body="compiled(keep=False, boundscheck=True)" if many else "inlined")
    text += kernel.filled(MANY + indent(many, 8 * " ") if many else ELEMENT if kernel.finish is None else ROW)
    if kernel.partial in kernel.names:
        text = text.replace(f"np.{kernel.partial}", f"{kernel.partial}.dtype")
    sources = Path(sys.modules[kernel.body.__module__].__file__).read_text()  # a test's own kernel is not among ours
    path = folder / f"{kernel.name}_{digest(CUDA_SOURCES, text, sources)}.py"
    if not path.exists():
        mine = path.with_suffix(f".{os.getpid()}")
        mine.write_text(text)
        mine.rename(path)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where Numba looks when it loads what it kept
    spec.loader.exec_module(module)

    def launch(grid, block, arguments):
        standin.launched("kernel", kernel.name)
        given = on_host(arguments[2:], kinds)
        _touched.note_kernel(kernel, arguments[2:])
        module.loops(*arguments[:2], *given)

    return launch


def simulator(kernel, kinds):
    """Return function(grid, block, arguments) that runs the kernel in Numba's CUDA simulator."""
    import numpy as np
    from numba import cuda

    scope = {"cuda": cuda, "body": kernel.body, "finish": kernel.finish, **kernel.dtypes(kinds)}
    exec(kernel.source(), scope)
    simulated = cuda.jit(scope[kernel.name])
    return lambda grid, block, arguments: simulated[grid, block](*arguments[:2], *on_host(arguments[2:], kinds))
