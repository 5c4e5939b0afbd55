"""The base class of codecs. It is itself the codec that sends gradients unchanged."""

from dataclasses import dataclass
from operator import iadd
from typing import ClassVar

import numpy as np

from kernels import RowGradient, merge_rows
from kernels.each import add_each, copy_each


@dataclass(frozen=True)
class Codec:
    """It encodes the gradients of a variable, elementwise: a message has the gradient's shape and ``dtype``. Local.

    name: in plans.  form: its text with a parameter, if it has one.
    dtype: of a message; None: the gradient's own.
    by_tree: whether gradients must be added in the order of the microbatch tree; if not, a ring may add them.
    scaled: whether it needs a scale on which all ranks agree (``ScaledTree``, ``Integers``).
    feedback: whether the residual, what it does not send, is added to the next gradient.
    kept: the number of arrays like the variable that it keeps for each microbatch, if it has feedback.
    strategy: the name of the only strategy that can send its messages of dense variables; "": all can.
    optimizer: the name of the only optimizer that can be used with it; "": all can.
    effort: the time to encode and decode an element, as a multiple of the time of an addition (docs/measured.md).
    """

    name: ClassVar[str] = "identity"
    dtype: ClassVar[str | None] = None
    by_tree: ClassVar[bool] = False
    scaled: ClassVar[bool] = False
    feedback: ClassVar[bool] = False
    kept: ClassVar[int] = 1
    strategy: ClassVar[str] = ""
    optimizer: ClassVar[str] = ""
    form: ClassVar[str] = ""
    effort: ClassVar[float] = 0.0

    @classmethod
    def of(cls, parameter: str) -> "Codec":
        """Return the codec with the parameter after the colon. Raises ValueError, which lists the valid ones."""
        raise ValueError(f"codec {cls.name} has no parameter {parameter[:20]!r}: leave it out")

    @classmethod
    def whole(cls, parameter: str, most: int, wanted: str) -> int:
        """Return a parameter as a whole number from 1 to ``most``. Raises ValueError with what is ``wanted``."""
        if not parameter.isdecimal() or len(parameter) > 9 or not 1 <= int(parameter) <= most:
            raise ValueError(f"codec {cls.name}:{parameter[:20]}: give {wanted}")
        return int(parameter)

    def check(self, variable, microbatches: int):
        """Raise ValueError, with a remedy, if it cannot encode the gradients of a variable in V microbatches."""

    def fits(self, variable) -> bool:
        """Return whether a codec for all "dense" variables is used for this one: whether messages are smaller."""
        return True

    def check_dense(self, variable):
        """Raise ValueError, with a remedy, unless a variable is dense, float32 and not a buffer (``statistic``)."""
        if variable.dtype != "float32" or variable.statistic or variable.sparse:
            kind = "sparse" if variable.sparse else "a buffer" if variable.statistic else variable.dtype
            raise ValueError(f"codec {self.name} is for gradients of dense float32 variables, and {variable.name!r} is "
                             f"{kind}; leave it out, or say bf16")

    def shape_kept(self, shape) -> tuple:
        """Return the shape of what it keeps for each microbatch. shape: of the variable."""
        return tuple(shape) if self.kept == 1 else (self.kept, *shape)

    def dtype_of(self, dtype: str) -> str:
        """Return the dtype of messages of a variable of ``dtype``."""
        return self.dtype or dtype

    def encode(self, gradient):
        """Return the message of a gradient, any shape; it may be the gradient itself."""
        return gradient

    def decode(self, message, out=None):
        """Return the gradient of a message. out: float32 array for the result, for codecs that need one."""
        return message

    def encode_each(self, messages, gradients):
        """Write the message of each gradient; copy those already encoded. Two lists of arrays of equal shapes."""
        copy_each(messages, gradients)

    def merge_each(self, messages, others):
        """Add to each message another message, or a gradient, which it encodes. Two lists of arrays of equal shapes."""
        add_each(messages, others)

    merge = staticmethod(iadd)
    """merge(into, other): add a message to another, in place; return it."""

    def merge_rows(self, left: RowGradient, right: RowGradient) -> RowGradient:
        """Return the sum of two row gradients with encoded rows. A row that only one of them has stays unchanged."""
        return merge_rows(left, right)

    def room(self, like):
        """Return an array for the ``out`` of ``decode``; None if ``decode`` needs none."""
        return None if self.dtype is None else np.empty(like.shape, np.float32)
