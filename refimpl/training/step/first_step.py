"""What is looked at in a session's first step only, as it takes time: whether anyone writes to what is another's.

Read-only views stop NumPy's assignments. They do not stop a GPU's, PyTorch's (``torch.from_numpy``) or ``np.add.at``;
nor does anything stop a model from using the arrays of a row gradient again. So here arrays are compared before and
after by a checksum.
"""

import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels import RowGradient, to_numpy
from models.frameworks.trees import leaves
from refimpl.training.step.arriving import Arriving
from refimpl.training.step.calls import Calls, share_memory, used_again
from refimpl.training.step.scalars import lies_there

FIELDS = ("inputs", "targets", "weights")
"""The arrays of a batch."""

ENDS = 2**16
"""Elements at both ends of a GPU's array that are compared: a model that updates it changes these, too."""


def checksum(array) -> tuple:
    """Return dtype, shape and a checksum of all elements; on a GPU of those at its ends. Local. Not an array: ().

    Of a tree of arrays, which a batch may hold, those of each.
    """
    if isinstance(array, (Mapping, tuple, list)):
        return tuple(checksum(leaf) for leaf in leaves(array))
    if lies_there(array):
        flat = array.reshape(-1)
        return array.dtype, array.shape, *(checksum(to_numpy(end)) for end in (flat[:ENDS], flat[-ENDS:]))
    if not isinstance(array, np.ndarray) or array.dtype.hasobject:
        return ()
    return array.dtype, array.shape, zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


@dataclass
class Kept:
    """Arrays that nobody may write to from now on, with their checksums. Local. sums: label -> (array, checksum)."""

    sums: dict[Any, tuple]

    def keep(self, label, array):
        """Note what an array is now, if it is not noted yet."""
        if label not in self.sums:
            self.sums[label] = array, checksum(array)

    def written(self):
        """Return the labels of the arrays that are no longer what they were."""
        return [label for label, (array, before) in self.sums.items() if checksum(array) != before]


def keep_batch(kept: Kept, batch, *label):
    """Note the arrays of a batch, as (*label, field). Local."""
    for field in FIELDS:
        kept.keep((*label, field), getattr(batch, field))


class FirstCalls(Calls):
    """A model's microbatches of a session's first step. Local."""

    def __init__(self, model):
        super().__init__(model)
        self.kept = Kept({})  # the row gradients of all microbatches: nobody writes to them before the exchange

    def compute(self, microbatch: int, dense, rows, batch):
        """Return (loss, gradients); raises ValueError, too, for writes to what was given, or handed out before."""
        given, ready = Kept({}), Kept({})
        keep_batch(given, batch, "batch")
        exchange = batch.ready

        def noted(gradients):
            _keep_gradients(ready, gradients, microbatch)
            exchange(gradients)

        batch.ready = noted
        values = _noted(dense, "dense", given), _noted(rows, "rows", given)
        loss, gradients = super().compute(microbatch, *values, batch)
        _check_given(given, f"{type(self.model).__name__}.loss_and_gradients", f"microbatch {microbatch}")
        _check_ready(ready, microbatch)
        self._keep_row_gradients(gradients, microbatch, given)
        return loss, gradients

    def end(self):
        """Raise ValueError if the arrays of a row gradient were used again while it was kept."""
        if written := self.kept.written():
            raise used_again(*written[0][:2])

    def _keep_row_gradients(self, gradients, microbatch, given):
        gradients = {name: g for name, g in gradients.items() if isinstance(g, RowGradient)}
        for name, gradient in gradients.items():
            for label, (value, _) in given.sums.items():
                if label[0] != "batch" and share_memory(gradient.rows, value):
                    raise ValueError(f"the gradient of {name!r} in microbatch {microbatch} shares memory with "
                                     f"{_told(label)}; it is kept until the step's exchange: give it a copy")
        _keep_gradients(self.kept, gradients, microbatch)


class FirstParts:
    """The first step of a model that is called in parts (``models.protocol.Sharded``). Local.

    batches: microbatch -> its batch or None.  dense: name -> value; then the values as the model is to take them.
    """

    def __init__(self, model, dense, batches):
        self.name, self.given, self.handed_out = type(model).__name__, Kept({}), defaultdict(lambda: Kept({}))
        self.dense = _noted(dense, "dense", self.given)
        for v, batch in batches.items():
            if batch is not None:
                keep_batch(self.given, batch, f"batch of microbatch {v}")

    def ready(self, gradients, microbatch: int):
        """Note gradients that were ready."""
        _keep_gradients(self.handed_out[microbatch], gradients, microbatch)

    def end_of(self, microbatch: int):
        """A microbatch is computed. Raises ValueError for writes to what was handed out before."""
        _check_ready(self.handed_out.pop(microbatch, Kept({})), microbatch)

    def end(self):
        """All are computed. Raises ValueError for writes to what was given."""
        _check_given(self.given, self.name, "the first step")


def _check_given(given, who, where):
    if written := given.written():
        raise ValueError(f"{who} has written to {_told(written[0])} in {where}: it is the training's; change a copy, "
                         "np.array(...)")


def _check_ready(ready, microbatch):
    if written := ready.written():
        raise ValueError(f"the gradient of {written[0][0]!r} in microbatch {microbatch} was ready, and then was "
                         "written to: call batch.ready with what is final only")


def _noted(values, kind, kept):
    """Return a mapping as it is, that notes each value where it is looked up."""

    def look_up(name):
        kept.keep((kind, name), value := values[name])
        return value

    return {name: look_up(name) for name in values} if isinstance(values, dict) else Arriving(values, look_up)


def _keep_gradients(kept, gradients, microbatch):
    for name, gradient in gradients.items():
        parts = {"ids": gradient.ids, "rows": gradient.rows} if isinstance(gradient, RowGradient) else {"": gradient}
        for part, array in parts.items():
            kept.keep((name, microbatch, part), array)


def _told(label) -> str:
    if label[0].startswith("batch"):
        return f"{label[1]} of the {label[0]}" if label[0] != "batch" else f"batch.{label[1]}"
    return f"{label[0]}[{label[1]!r}]"
