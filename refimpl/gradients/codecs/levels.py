"""Equals ``plain.level_codecs``: a few bits for each element, packed without gaps, then the scales, float32.

The sum of two such messages is none. So the message of each microbatch goes to all ranks as it is (strategy
"messages"). Each rank decodes the V messages and adds them in the order of the microbatch tree.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from refimpl.gradients.codecs.codec import Codec


@dataclass(frozen=True)
class Levels(Codec):
    """The base class. scales: their number in a message.  bits: of an element."""

    strategy = "messages"
    scales: ClassVar[int] = 1
    bits: ClassVar[int] = 1

    def check(self, variable, microbatches):
        self.check_dense(variable)

    def message_bytes(self, elements: int) -> int:
        """Return the bytes of a microbatch's message: ⌈n · bits / 8⌉, and 4 for each scale."""
        return -(-elements * self.bits // 8) + 4 * self.scales

    def levels(self, values, key: int):
        """Return the level of each element, (n,) uint8 or bool, and the scales. values: (n,) float32."""
        raise NotImplementedError

    def values(self, levels, scales):
        """Return what levels, (n,) uint8, and scales stand for: (n,) float32."""
        raise NotImplementedError

    def pack(self, values, key: int, message):
        """Write the message of ``values``, (n,) float32, to (message_bytes(n),) uint8. key: of its random numbers."""
        levels, scales = self.levels(values, key)
        if self.bits > 1:
            levels = np.unpackbits(levels[:, None], axis=1, count=self.bits, bitorder="little")
        message[:-4 * self.scales] = np.packbits(levels)
        message[-4 * self.scales:] = np.asarray(scales, np.float32).view(np.uint8)

    def unpack(self, message, elements: int):
        """Return what a message stands for, (n,) float32, n = ``elements``."""
        levels = np.unpackbits(message[:-4 * self.scales], count=elements * self.bits)
        if self.bits > 1:
            levels = np.packbits(levels.reshape(elements, self.bits), axis=1, bitorder="little")[:, 0]
        return self.values(levels, np.frombuffer(message[-4 * self.scales:].tobytes(), np.float32))
