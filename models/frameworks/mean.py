"""Find whether a loss is a sum or a mean over examples: compare a microbatch's loss with that of its repetition."""

import math
from dataclasses import replace
from typing import Callable

from kernels import array_module
from models.protocol import Batch
from models.frameworks.trees import leaves, mapped

CLOSE = 1e-3
"""Relative tolerance. If all examples are repeated, a sum doubles, except for rounding."""

WORDS = ("the loss is a mean over the microbatch: the step adds up the microbatches' losses and divides once, by the "
         "examples of the whole batch, so that short microbatches and any number of ranks give one answer. Return the "
         "sum: ")


def is_mean(total: Callable[[Batch], float], batch: Batch) -> bool | None:
    """Return whether a loss is a mean over examples; None if the repeated batch does not show it. Local.

    total: returns the loss of a batch, in evaluation mode; it is called with batches of two sizes.
    """
    ratio = 1.0
    for axis in (0, 1):  # text is (time, streams)
        if (twice := _told_twice(batch, axis)) is None:
            continue
        try:
            once, again = total(replace(batch, state={})), total(twice)
        except Exception:  # the model does not accept another number of examples
            continue
        if once and math.isclose(again, 2 * once, rel_tol=CLOSE):
            return False
        if once and math.isclose(again, once, rel_tol=CLOSE) and ratio < 1.5:
            return True
        ratio = again / once if once else 1.0  # near 2 for a sum that draws numbers for each example
    return None


def _told_twice(batch: Batch, axis) -> Batch | None:
    """Return the batch with each example twice, along an axis; None if its arrays do not share this axis."""
    parts = {name: getattr(batch, name) for name in ("inputs", "targets", "weights")}
    lengths = {leaf.shape[axis] if leaf.ndim > axis else None
               for leaf in leaves(tuple(parts.values())) if hasattr(leaf, "ndim")}
    if len(lengths) != 1 or None in lengths:
        return None

    def change(leaf):
        return array_module(leaf).concatenate([leaf, leaf], axis) if hasattr(leaf, "ndim") else leaf

    return replace(batch, state={}, **{name: mapped(part, change) for name, part in parts.items()})
