"""The two codecs that send every element, with fewer bits.

    Rounded(bf16 or fp16)  2n bytes      round(g); a sum of two is rounded again, at every node of the tree
    Integers(8, 16, 32)    n, 2n, 4n     floor(g 2^k + u), u uniform in [0, 1): its expectation is g 2^k

Sums of integers are exact, so ``Integers`` gives the same bits in any order, also on a ring. The other codecs are in
``sparse_codecs``, ``level_codecs`` and ``power_sgd``.

    python -m refimpl.plain.encoding.codecs
"""

import numpy as np

from refimpl.plain.encoding.codec import Codec, show


class Rounded(Codec):
    """Half the bits of a float32, rounded to nearest, ties to even. So little is lost that it needs no feedback.

    kind: "bf16", with the range of float32, or "fp16".
    """

    def __init__(self, kind):
        self.kind = kind

    def encode(self, gradient, residual, drawn):
        """Round each element."""
        if self.kind == "fp16":
            return (gradient.astype(np.float16),)
        bits = gradient.view(np.uint32)  # bf16 is the upper half of a float32's bits
        half = 0x7FFF + (bits >> 16 & 1)  # added to the lower half: a carry rounds up; a tie rounds to the even number
        return ((bits + half >> 16).astype(np.uint16),)

    def merge(self, a, b):
        """Add in float32, round again."""
        return self.encode(self.decode(a) + self.decode(b), 0, None)

    def decode(self, message):
        """Append 16 zero bits, or convert."""
        [half] = message
        return half.astype(np.float32) if self.kind == "fp16" else (half.astype(np.uint32) << 16).view(np.float32)


class Integers(Codec):
    """Integers of ``width`` bits with one power of two as scale, as in IntSGD and THC.

    The sum of V microbatches must fit, so the integers of one microbatch have log2(V) bits less. largest: max |g| over
    all microbatches. All ranks agree on it first (4 bytes each).
    """

    def __init__(self, width, microbatches, largest):
        parts = 1 << (microbatches - 1).bit_length()  # V, rounded up to a power of two
        most = (1 << width - 1) // parts - 1  # the largest integer of a microbatch
        if most < 1:
            raise ValueError(f"{microbatches} microbatches do not fit into sums of {width} bits: give more bits")
        self.dtype = np.dtype(f"int{width}")
        # exponent: the largest k with largest * 2**k <= most
        self.exponent = int(np.frexp(most / float(largest))[1]) if largest else 0
        while np.ldexp(float(largest), self.exponent) > most:
            self.exponent -= 1

    def encode(self, gradient, residual, drawn):
        """Round up with a probability equal to the fraction, otherwise down. So the expectation is exact."""
        scaled = np.ldexp(gradient.astype(np.float64), self.exponent)
        return (np.floor(scaled + drawn).astype(self.dtype),)

    def merge(self, a, b):
        """Add integers."""
        return (a[0] + b[0],)

    def decode(self, message):
        """Divide by the scale."""
        return np.ldexp(message[0].astype(np.float64), -self.exponent).astype(np.float32)


def main():
    """Add up the gradients of eight microbatches, encoded."""
    gradients = np.random.default_rng(0).standard_normal((8, 1000)).astype(np.float32)
    for kind in ("bf16", "fp16"):
        show(kind, Rounded(kind), gradients)
    show("integers", Integers(16, len(gradients), np.abs(gradients).max()), gradients)


if __name__ == "__main__":
    main()
