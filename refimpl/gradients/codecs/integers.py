"""Equals ``plain.encoding.codecs.Integers``: integers, and a power of two as each variable's scale. n · bits / 8 bytes.

    leaf     floor(g 2^k + u), u uniform in [0, 1): its expectation is g 2^k          node     left + right, exactly

First all ranks agree on max |g| over all microbatches, 4 bytes for each variable. k is the largest exponent with which
V such integers add up without overflow. Sums of integers are exact, so a ring's order gives the same bits, too.
"""

from dataclasses import dataclass

import numpy as np

from kernels import integers
from refimpl.gradients.codecs.codec import Codec

WIDTHS = 8, 16, 32


@dataclass(frozen=True)
class Integers(Codec):
    """bits: of an element of a message. The sum over V microbatches must not need more."""

    name, scaled, form, effort = "integers", True, f"integers:{'|'.join(map(str, WIDTHS))}", 1.7

    bits: int = 16

    @classmethod
    def of(cls, parameter):
        if not parameter.isdecimal() or int(parameter) not in WIDTHS:
            raise ValueError(f"codec {cls.name}:{parameter[:20]}: give {cls.form}")
        return cls(int(parameter))

    @property
    def dtype(self):
        """The dtype of a message."""
        return f"int{self.bits}"

    def check(self, variable, microbatches):
        self.check_dense(variable)
        if self.most(microbatches) < 1:
            fits = [str(bits) for bits in WIDTHS if Integers(bits).most(microbatches) >= 1]
            raise ValueError(f"{microbatches} microbatches do not fit into sums of {self.bits} bits: say "
                             f"{self.name}:{' or '.join(fits)}, or give fewer --microbatches")

    def most(self, microbatches: int) -> int:
        """Return the largest integer of which ``microbatches`` add up without overflow."""
        return (1 << self.bits - 1) // (1 << (microbatches - 1).bit_length()) - 1

    def exponent(self, largest, microbatches: int) -> int:
        """Return k. largest: max |g| over all microbatches."""
        largest, most = float(largest), self.most(microbatches)
        exponent = int(np.frexp(most / largest)[1]) if largest else 0
        while np.ldexp(largest, exponent) > most:
            exponent -= 1
        return exponent

    def quantise(self, gradient, exponent: int, key: int):
        """Return the message of a gradient. key: of its random numbers."""
        message = np.empty(gradient.shape, self.dtype)
        integers.encode(gradient, exponent, key, message)
        return message

    def restore(self, message, exponent: int, out):
        """Write the gradient of a message to ``out``, float32; return it."""
        integers.decode(message, exponent, out)
        return out
