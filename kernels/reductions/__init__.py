"""Reductions over gradients whose bits do not depend on how the gradients are stored: norms, finiteness."""

from kernels.arrays import array_module, is_float_cuda, is_float_numpy
from kernels.reductions import cuda, definition, fast


def sum_of_squares_per_row(x):
    """Return each row's sum of squares in float64, in a fixed order: (k, d) -> (k,). Local.

    See ``definition.sum_of_squares_per_row``; raises ValueError unless ``x`` has two axes.
    """
    if x.ndim != 2:
        raise ValueError(f"the array has shape {x.shape}: give it two axes (rows, columns)")
    version = fast if is_float_numpy(x) else cuda if is_float_cuda(x) else definition
    return version.sum_of_squares_per_row(x)


def sum_of_squares_per_row_each(arrays):
    """Return the sums of ``sum_of_squares_per_row`` of several matrices, one after the other: (all rows,). Local.

    On a GPU in few launches.
    """
    if all(is_float_cuda(x) and x.ndim == 2 and x.dtype == arrays[0].dtype for x in arrays):
        return cuda.sum_of_squares_per_row_each(arrays)
    return array_module(*arrays).concatenate([sum_of_squares_per_row(x) for x in arrays])


def sum_of_squares(x) -> float:
    """Return the sum of squares of a whole array of any shape, summed as one row in C order. Local."""
    return float(sum_of_squares_per_row(x.reshape(1, -1))[0])


def all_finite(x) -> bool:
    """Return True if no element of ``x`` (any shape) is NaN or infinite. Local."""
    if is_float_numpy(x) and x.flags.c_contiguous:
        return fast.all_finite(x.reshape(-1))
    return definition.all_finite(x)


def finite_each(arrays) -> list[bool]:
    """Return of each array whether it is ``all_finite``; those on a GPU are waited for once, together. Local."""
    arrays = list(arrays)
    there = [i for i, x in enumerate(arrays) if is_float_cuda(x)]
    answers = dict(zip(there, cuda.finite_each([arrays[i] for i in there]))) if there else {}
    return [answers[i] if i in answers else all_finite(x) for i, x in enumerate(arrays)]


def infinite_each(arrays):
    """Return a flag of each array on a GPU, 1 if it is not finite: (n,) int64, there too, and nobody waits. Local."""
    return cuda.infinite_each(arrays)


__all__ = ["all_finite", "finite_each", "infinite_each", "sum_of_squares", "sum_of_squares_per_row",
           "sum_of_squares_per_row_each"]
