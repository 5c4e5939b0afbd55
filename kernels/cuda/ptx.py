"""Kernels as PTX: compiled by Numba and NVIDIA's libNVVM, cached on disk, loaded and launched by CuPy.

Numba's own launcher inspects every argument at each call, which takes longer than a small kernel. CuPy's launcher
passes pointers. Additions are never fused with multiplications, because fused operations round once and would give
other bits than the definition. An option of libNVVM forbids it; the driver's assembler does not fuse instructions with
explicit rounding (``add.rn``). Compilation needs no GPU.
"""

import contextlib
import functools
import os
import re
import tempfile
from pathlib import Path

import numba
import numpy as np
from numba import cuda, types
from numba.cuda.cudadrv import nvvm
from numba.cuda.cudadrv.error import CudaSupportError

from kernels.compiled import CUDA_SOURCES, digest, inlined

CAPABILITY, VERSION = (7, 5), "7.0"
"""Of the PTX, which any later GPU's driver takes too. A compiler names its own, newer version, though these kernels use
nothing that is new in it; older drivers would refuse them."""

HERE = Path(__file__).parent / "__pycache__"
BOUNDS = ".maxntid {threads}, 1, 1\n.minnctapersm 4\n"
"""How large a block is, and how many share a processor: with up to 64 registers a thread, loads run ahead of sums."""

ROUNDED = re.compile(r"\b(add|sub|mul)\.(f32|f64)\b")
ENTRY = re.compile(r"\.visible \.entry (\w+)")
MISSING = ("kernels for a GPU are compiled by NVIDIA's libNVVM, which is not found ({problem}): "
           "install the extra cuda12 or cuda13 (it brings numba-cuda), or set CUDA_HOME to a CUDA toolkit")


def load(kernel, kinds):
    """Return CuPy's kernel for arguments of these kinds. Raises RuntimeError without CUDA's compiler. Local."""
    import cupy

    text, path = kept(kernel, kinds)
    return cupy.RawModule(path=str(path)).get_function(entry_of(text))


def entry_of(text: str) -> str:
    """Return the name of the kernel in its PTX."""
    return ENTRY.search(text).group(1)


def kept(kernel, kinds):
    """Return (PTX, its file): compiled now, or by an earlier process from the same sources. Local."""
    for folder in (HERE, Path(tempfile.gettempdir()) / f"refimpl-{os.getuid()}"):
        path = folder / f"{kernel.body.__module__}.{kernel.name}-{CUDA_SOURCES}-{digest(*kinds)}.ptx"
        if path.exists():
            return path.read_text(), path
        try:
            folder.mkdir(exist_ok=True)
            mine = path.with_suffix(f".{os.getpid()}")
            mine.touch()
        except OSError:  # a read-only installation
            continue
        text = compiled_text(kernel, kinds)
        mine.write_text(text)
        mine.rename(path)  # atomic: other processes never see a part of the file
        return text, path
    raise RuntimeError(f"{HERE} and {folder} cannot be written: kernels for a GPU are kept in one of them")


def compiled_text(kernel, kinds, capability=CAPABILITY) -> str:
    """Return a kernel's PTX for arguments of these kinds. Raises RuntimeError without libNVVM. Local."""
    scope = {"cuda": cuda, "body": inlined(kernel.body), **kernel.dtypes(kinds, numba.from_dtype)}
    if kernel.finish is not None:
        scope["finish"] = inlined(kernel.finish)
    exec(compile(kernel.source(), f"<{kernel.name}>", "exec"), scope)
    signature = types.void(types.int64, types.int64, *map(numba_type, kinds))
    try:
        with rounding_each(), row_stack():
            text, _ = cuda.compile_ptx(scope[kernel.name], signature, device=False, cc=capability)
    except (OSError, ImportError, CudaSupportError) as problem:
        raise RuntimeError(MISSING.format(problem=str(problem).strip())) from problem
    if capability == CAPABILITY:
        text = re.sub(r"\.version \d+\.\d+", f".version {VERSION}", text)
    head, body = ROUNDED.sub(r"\1.rn.\2", text).split("\n{", 1)
    return f"{head}\n{BOUNDS.format(threads=kernel.threads)}{{{body}"


@contextlib.contextmanager
def rounding_each():
    """Forbid libNVVM to fuse multiplications with additions: Numba 0.68 and numba-cuda have no option for this."""
    given = nvvm.compile_ir
    nvvm.compile_ir = functools.partial(given, fma=False)
    try:
        yield
    finally:
        nvvm.compile_ir = given


@contextlib.contextmanager
def row_stack():
    """Give NumPy a name that numba-cuda 0.30 reads at its first compilation. NumPy 2.5 removed this name."""
    missing = not hasattr(np, "row_stack")
    if missing:
        np.row_stack = np.vstack
    try:
        yield
    finally:
        if missing:
            del np.row_stack


def numba_type(kind: str):
    """Return Numba's type of an argument's kind: a pointer for an array."""
    element = numba.from_dtype(np.dtype(kind[0]))
    return types.CPointer(element) if kind.endswith("*") else element
