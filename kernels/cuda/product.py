"""A product of matrices on a GPU, written or added to an array: one call of cuBLAS.

CuPy's own ways to cuBLAS, ``matmul`` and ``cupy.cublas.gemm``, take the host longer than the GPU takes for a small
product.
"""

from functools import cache

import numpy as np

ROWS, COLUMNS = 0, 1  # cuBLAS's flags for a matrix that has its columns, or its rows, in one piece


def write_product(left, right, out):
    """Write left @ right to ``out``: (m, k), (k, n) -> (m, n). Transposes and rows with gaps are not copied. Local."""
    if left.size and right.size:  # cuBLAS refuses matrices without elements
        multiply(left, right, out, 0)
    else:
        out[...] = 0


def add_product(left, right, out):
    """Add left @ right to ``out``, as in ``write_product``. Local."""
    if left.size and right.size:
        multiply(left, right, out, 1)


def multiply(left, right, out, kept):
    """Write left @ right + kept * out to ``out``. kept: 0 or 1. Tests replace this function where there is no GPU.

    cuBLAS has columns where NumPy has rows, so it is asked for the transpose: right.T @ left.T.
    """
    gemm, handle, (nothing, one) = cublas_for(out.dtype.char)
    (m, k), n = left.shape, right.shape[1]
    (left_flag, left_gap), (right_flag, right_gap), (_, gap) = layout(left), layout(right), layout(out)
    gemm(handle(), right_flag, left_flag, n, m, k, one, right.data.ptr, right_gap, left.data.ptr, left_gap,
         one if kept else nothing, out.data.ptr, gap)


def layout(matrix):
    """Return a matrix's flag, and the elements from one row, or column, to the next. Raises ValueError for others."""
    (rows, columns), (down, across), size = matrix.shape, matrix.strides, matrix.itemsize
    if across == size or columns == 1:
        return ROWS, max(down // size, columns)
    if down == size or rows == 1:
        return COLUMNS, max(across // size, rows)
    raise ValueError(f"a matrix with strides {matrix.strides} has neither its rows nor its columns in one piece")


FACTORS = {char: np.array([0, 1], char) for char in "fd"}
"""What is kept of ``out``: cuBLAS reads these numbers where they are."""


@cache
def cublas_for(char):
    """Return cuBLAS's product for a dtype, a function for its handle, and the addresses of 0 and 1."""
    from cupy.cuda import cublas, device

    factors = FACTORS[char]
    zero = factors.ctypes.data
    return {"f": cublas.sgemm, "d": cublas.dgemm}[char], device.get_cublas_handle, (zero, zero + factors.itemsize)
