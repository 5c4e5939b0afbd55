"""Reductions over gradients whose bits do not depend on how the gradients are stored: norms, finiteness."""

import numpy as np

from kernels.arrays import array_module, is_float_cuda, is_float_numpy, to_numpy
from kernels.reductions import cuda, definition, fast

SLOTS = 256  # flags that a watch gets at a time


def sum_of_squares_per_row(x):
    """Return each row's sum of squares in float64, in a fixed order: (k, d) -> (k,). Local.

    See ``definition.sum_of_squares_per_row``; raises ValueError unless ``x`` has two axes.
    """
    if x.ndim != 2:
        raise ValueError(f"the array has shape {x.shape}: give it two axes (rows, columns)")
    version = fast if is_float_numpy(x) else cuda if is_float_cuda(x) else definition
    return version.sum_of_squares_per_row(x)


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


class FiniteWatch:
    """Whether arrays on a GPU are finite: each is looked at as it comes, and all are waited for once. Local."""

    def __init__(self):
        self.names, self.blocks = [], []

    def look(self, name, array):
        """Look at a float array on a GPU, as it is now.  name: what ``first_bad`` returns."""
        place = len(self.names) % SLOTS
        if place == 0:
            self.blocks.append(array_module(array).zeros(SLOTS, np.int64))
        cuda.note_infinite(1, array.size, array_module(array).ascontiguousarray(array), self.blocks[-1][place:])
        self.names.append(name)

    def first_bad(self):
        """Return the name of the first array that was not finite, None if all were; then begin anew."""
        used = [min(SLOTS, len(self.names) - first) for first in range(0, len(self.names), SLOTS)]
        flags = [flag for block, count in zip(self.blocks, used) for flag in to_numpy(block[:count]).tolist()]
        bad = [name for name, flag in zip(self.names, flags) if flag]
        self.names, self.blocks = [], []
        return bad[0] if bad else None


__all__ = ["FiniteWatch", "all_finite", "finite_each", "sum_of_squares", "sum_of_squares_per_row"]
