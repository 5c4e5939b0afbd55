"""Detects writes to an array by comparing checksums. It takes time, so only the first step of a session is checked.

Read-only views stop NumPy's assignments, but not those on a GPU, nor PyTorch's (``torch.from_numpy``), nor
``np.add.at``. And nothing stops a model from using the arrays of a row gradient again.
"""

import zlib
from collections.abc import Mapping

import numpy as np

from kernels import RowGradient, to_numpy
from models.frameworks.trees import leaves
from refimpl.training.step.scalars import lies_there

FIELDS = ("inputs", "targets", "weights")
"""The arrays of a batch."""

ENDS = 2**16
"""The number of elements at each end of a GPU's array that are compared: a model that updates it changes these, too."""


def checksum(array) -> tuple:
    """Return (dtype, shape, checksum of all elements) of an array, () of another object. Local.

    On a GPU only the ends are read. For a tree of arrays, which a batch may hold, it is a tuple of each array's.
    """
    if isinstance(array, (Mapping, tuple, list)):
        return tuple(checksum(leaf) for leaf in leaves(array))
    if lies_there(array):
        flat = array.reshape(-1)
        return array.dtype, array.shape, *(checksum(to_numpy(end)) for end in (flat[:ENDS], flat[-ENDS:]))
    if not isinstance(array, np.ndarray) or array.dtype.hasobject:
        return ()
    return array.dtype, array.shape, zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


class Kept(dict):
    """Arrays that must not be written to: label -> (array, its checksum). Local."""

    def keep(self, label, array):
        """Note an array's checksum, unless the label is noted already; return the array."""
        if label not in self:
            self[label] = array, checksum(array)
        return array

    def keep_batch(self, batch, *label):
        """Note the arrays of a batch, each as (*label, field)."""
        for field in FIELDS:
            self.keep((*label, field), getattr(batch, field))

    def keep_gradients(self, gradients, microbatch: int):
        """Note the arrays of gradients, each as (variable, microbatch, part)."""
        for name, gradient in gradients.items():
            rows = isinstance(gradient, RowGradient)
            for part, array in ({"ids": gradient.ids, "rows": gradient.rows} if rows else {"": gradient}).items():
                self.keep((name, microbatch, part), array)

    def written(self):
        """Return the label of the first array with another checksum than before, or None."""
        return next((label for label, (array, before) in self.items() if checksum(array) != before), None)
