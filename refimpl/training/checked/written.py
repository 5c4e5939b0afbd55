"""Whether an array was written to, by a checksum before and after. It takes time: in a session's first step only.

Read-only views stop NumPy's assignments. They do not stop a GPU's, PyTorch's (``torch.from_numpy``) or ``np.add.at``;
nor does anything stop a model from using the arrays of a row gradient again.
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


class Kept(dict):
    """Arrays that must not be written to from now on: label -> (array, its checksum). Local."""

    def keep(self, label, array):
        """Note what an array is now, if it is not noted yet; return it."""
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
        """Return the label of the first array that is no longer what it was, None if all are."""
        return next((label for label, (array, before) in self.items() if checksum(array) != before), None)
