"""Reductions over gradients: norms and finiteness. Their bits do not depend on how the gradients are stored."""

from kernels.arrays import array_module, is_float_cuda, is_float_numpy
from kernels.reductions import cuda, definition, fast
from kernels.reductions.cuda import infinite_each


def sum_of_squares_per_row(x):
    """Return each row's sum of squares in float64, in a fixed order: (k, d) -> (k,). Local.

    See ``definition.sum_of_squares_per_row``; raises ValueError unless ``x`` has two axes.
    """
    if x.ndim != 2:
        raise ValueError(f"the array has shape {x.shape}: give it two axes (rows, columns)")
    if is_float_cuda(x):
        return cuda.sum_of_squares_per_row_each([x])
    return (fast if is_float_numpy(x) else definition).sum_of_squares_per_row(x)


def sum_of_squares_per_row_each(arrays):
    """Return ``sum_of_squares_per_row`` of several matrices, (all rows,), on a GPU in few launches. Local."""
    if all(is_float_cuda(x) and x.ndim == 2 and x.dtype == arrays[0].dtype for x in arrays):
        return cuda.sum_of_squares_per_row_each(arrays)
    return array_module(*arrays).concatenate([sum_of_squares_per_row(x) for x in arrays])


def all_finite(x) -> bool:
    """Return True if no element of ``x`` (any shape) is NaN or infinite. Local."""
    if is_float_numpy(x) and x.flags.c_contiguous:
        return fast.all_finite(x.reshape(-1))
    return definition.all_finite(x)


__all__ = ["all_finite", "infinite_each", "sum_of_squares_per_row", "sum_of_squares_per_row_each"]
