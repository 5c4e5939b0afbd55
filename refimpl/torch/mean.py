"""Is a loss a sum over its examples, or their mean? Found with the first microbatch, told twice over."""

import math
from typing import Callable

import torch
from torch.nn.modules.loss import _Loss

from refimpl.torch.tensors import Microbatch, mapped, tensors_in

CLOSE = 1e-3
"""Relative; a sum over examples told twice is twice as large but for rounding."""

WORDS = ("the loss is a mean over the microbatch: the step adds up the microbatches' losses and divides once, by the "
         "examples of the whole batch, so that short microbatches and any number of ranks give one answer. Return the "
         'sum: reduction="sum", or .sum() in place of .mean()')


def refuse_mean(total: Callable[[Microbatch], float], module, batch: Microbatch):
    """Raise ValueError if the loss is a mean over examples. Local.

    total: returns the loss of a batch, in evaluation mode.  Where no other number of examples can be told (bags by
    offset, states of a fixed size), loss modules with reduction="mean" are refused.
    """
    for axis in (0, 1):  # text is (time, streams)
        if (twice := _told_twice(batch, axis)) is None:
            continue
        try:
            once, again = total(batch), total(twice)
        except Exception:  # it does not take another number of examples
            continue
        if once and math.isclose(again, 2 * once, rel_tol=CLOSE):
            return
        if once and math.isclose(again, once, rel_tol=CLOSE):
            raise ValueError(WORDS)
    for name, part in module.named_modules():
        if isinstance(part, _Loss) and part.reduction == "mean":
            raise ValueError(f"{name or type(part).__name__} has reduction={part.reduction!r}: {WORDS}")


def _told_twice(batch: Microbatch, axis) -> Microbatch | None:
    """Return the batch with each example twice, along an axis; None where its tensors have no such axis in common."""
    lengths = {tensor.shape[axis] if tensor.ndim > axis else None for tensor in tensors_in(tuple(batch[:3]))}
    if len(lengths) != 1 or None in lengths:
        return None

    def change(leaf):
        return torch.cat([leaf, leaf], axis) if isinstance(leaf, torch.Tensor) else leaf

    return Microbatch(*(mapped(part, change) for part in batch[:3]), state={})
