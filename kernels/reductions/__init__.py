"""Reductions over gradients whose bits do not depend on how the gradients are stored: norms, finiteness."""

from kernels.arrays import array_module, is_float_numpy, is_numpy, to_numpy
from kernels.reductions import definition, fast


def sum_of_squares_per_row(x):
    """Return each row's sum of squares in float64, in a fixed order: (k, d) -> (k,). Local.

    See ``definition.sum_of_squares_per_row``; raises ValueError unless ``x`` has two axes.
    """
    if x.ndim != 2:
        raise ValueError(f"the array has shape {x.shape}: give it two axes (rows, columns)")
    return (fast if is_float_numpy(x) else definition).sum_of_squares_per_row(x)


def sum_of_squares(x) -> float:
    """Return the sum of squares of a whole array of any shape, summed as one row in C order. Local."""
    return float(sum_of_squares_per_row(x.reshape(1, -1))[0])


def all_finite(x) -> bool:
    """Return True if no element of ``x`` (any shape) is NaN or infinite. Local."""
    if is_float_numpy(x) and x.flags.c_contiguous:
        return fast.all_finite(x.reshape(-1))
    return definition.all_finite(x)


def finite_each(arrays) -> list[bool]:
    """Return of each array whether it is ``all_finite``; what lies on a device is waited for once. Local."""
    arrays = list(arrays)
    answers = {i: all_finite(x) for i, x in enumerate(arrays) if is_numpy(x)}
    rest = [i for i in range(len(arrays)) if i not in answers]
    if rest:
        xp = array_module(*arrays)
        flags = to_numpy(xp.stack([xp.isfinite(arrays[i]).all() for i in rest])).tolist()
        answers |= dict(zip(rest, flags))
    return [answers[i] for i in range(len(arrays))]


__all__ = ["all_finite", "finite_each", "sum_of_squares", "sum_of_squares_per_row"]
