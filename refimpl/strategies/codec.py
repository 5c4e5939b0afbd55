"""Codecs: how an array is encoded before it travels, and decoded where it arrives. A value on a placement of the plan.

There is one so far, the identity. To add one (float16, top-k, error feedback): its class here; the exchanges of the
strategies that can carry it call ``encode`` before a message and ``decode`` after it, and ``nbytes`` in their bytes.
"""

from refimpl.plan.strategy import IDENTITY


class Identity:
    """Arrays travel as they are: every bit arrives."""

    def encode(self, array):
        """Return what is sent for an array. Local."""
        return array

    def decode(self, message, shape, dtype):
        """Return the array of a message. Local."""
        return message

    def nbytes(self, elements: int, itemsize: int) -> int:
        """Return the bytes that are sent for so many elements. Local."""
        return elements * itemsize


CODECS = {IDENTITY: Identity()}
"""Name -> codec."""
