"""Equals ``plain.encoding.level_codecs``: a few bits for each element, packed without gaps, then the scales, float32.

Such messages cannot be added. So the message of each microbatch goes to all ranks unchanged (strategy "messages").
Each rank decodes the V messages and adds them in the order of the microbatch tree.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernels import levels
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

    def table(self, scales):
        """Return the value of each level: (2^bits,) float32. scales: (scales,) float32."""
        raise NotImplementedError

    def pack(self, values, key: int, message):
        """Write the message of ``values``, (n,) float32, to (message_bytes(n),) uint8. key: of its random numbers."""
        scales = np.asarray(self.encode_levels(values, key, message[:-4 * self.scales]), np.float32)
        message[-4 * self.scales:] = scales.reshape(-1).view(np.uint8)

    def encode_levels(self, values, key: int, packed):
        """Write the packed levels of ``values``; return the scales, float32."""
        raise NotImplementedError

    def unpack(self, message, elements: int):
        """Return the values of a message: (n,) float32, n = ``elements``."""
        out = np.empty(elements, np.float32)
        scales = np.frombuffer(message[-4 * self.scales:].tobytes(), np.float32)
        levels.look_up(message[:-4 * self.scales], self.bits, self.table(scales), out)
        return out
