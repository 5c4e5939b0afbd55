"""The stand-in's cupy.cublas: products that cuBLAS adds to what is there."""

import numpy as np

from cupy import _launches
from cupy._array import unwrap


def gemm(transa, transb, a, b, out=None, alpha=1.0, beta=0.0):
    """Write alpha * op(a) @ op(b) + beta * out to out."""
    a, b, out = (unwrap(one) for one in (a, b, out))
    if out is None or not (out.flags.c_contiguous or out.flags.f_contiguous) or np.may_share_memory(a, out):
        raise NotImplementedError("the stand-in takes an out in one piece, apart from the factors")
    if len({one.dtype for one in (a, b, out)}) > 1 or a.ndim != 2 or b.ndim != 2:
        raise AssertionError("cupy.cublas.gemm takes matrices of one dtype")
    a, b = (one if op == "N" else one.T for op, one in ((transa, a), (transb, b)))
    with np.errstate(all="ignore"):
        out[...] = a.dtype.type(alpha) * (a @ b) + a.dtype.type(beta) * out
    _launches.note_product((a, b), out)
