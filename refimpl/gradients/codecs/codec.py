"""What a codec is; this one is the identity: every bit of a gradient travels."""

from dataclasses import dataclass
from operator import iadd
from typing import ClassVar

import numpy as np

from kernels import RowGradient, array_module, merge_rows
from kernels.each import add_each, copy_each


@dataclass(frozen=True)
class Codec:
    """Encodes the gradients of a variable elementwise: a message has as many elements, of ``dtype``. Local.

    name: what plans call it.  form: how its text is written, where a parameter follows.
    dtype: of a message; None: the gradient's own.
    by_tree: whether the sum must be formed in the order of the microbatch tree; else a ring may add in another.
    scaled: whether it encodes by a scale that all ranks agree on (``gradients.scaled``, ``Integers``).
    feedback: whether it sends few elements, and what it leaves out is added to the next gradient (``TopK``).
    """

    name: ClassVar[str] = "identity"
    dtype: ClassVar[str | None] = None
    by_tree: ClassVar[bool] = False
    scaled: ClassVar[bool] = False
    feedback: ClassVar[bool] = False
    form: ClassVar[str] = ""

    @classmethod
    def of(cls, parameter: str) -> "Codec":
        """Return the codec with the parameter behind its name and a colon. Raises ValueError, saying what fits."""
        raise ValueError(f"codec {cls.name} has no parameter {parameter[:20]!r}: leave it out")

    def check(self, variable, microbatches: int):
        """Raise ValueError, saying what fits, for a variable whose gradient, of V microbatches, it cannot encode."""

    def dtype_of(self, dtype: str) -> str:
        """Return the dtype of messages of a variable of ``dtype``."""
        return self.dtype or dtype

    def encode(self, gradient):
        """Return the message of a gradient, any shape; it may be the gradient itself."""
        return gradient

    def decode(self, message, out=None):
        """Return what a message stands for. out: float32 array to be written, for codecs that need one."""
        return message

    def encode_each(self, messages, gradients):
        """Write the message of each gradient; one that is encoded already is copied. Lists of arrays of like shapes."""
        copy_each(messages, gradients)

    def merge_each(self, messages, others):
        """Add to each message another, or a gradient that is encoded first. Lists of arrays of like shapes."""
        add_each(messages, others)

    merge = staticmethod(iadd)
    """merge(into, other): add a message to another, in place; return it."""

    def merge_rows(self, left: RowGradient, right: RowGradient) -> RowGradient:
        """Return the sum of two row gradients whose rows are encoded: a row that only one has stays as it is."""
        return merge_rows(left, right)

    def room(self, like):
        """Return the array that ``decode`` writes messages like this one to; None: it needs none."""
        return None if self.dtype is None else array_module(like).empty(like.shape, np.float32)
