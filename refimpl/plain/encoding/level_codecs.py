"""Codecs that send one of a few levels for each element, packed: a few bits, and a scale or two.

    OneBit      the sign, and for each sign the mean of its elements     n/8 + 8 bytes
    QSGD(s)     ‖g‖ sgn(g) l/s, where l is |g| s/‖g‖, rounded up or      n (1 + bits of s)/8 + 4 bytes
                down at random
    TernGrad    m sgn(g) with probability |g|/m, else 0; m = max |g|     n/4 + 4 bytes

QSGD and TernGrad have no bias; the variance of QSGD is at most min(n/s², √n/s) ‖g‖². OneBit is biased, and so is
TernGrad if it first clips g to some standard deviations. These two need feedback (``residuals``).

The sum of two messages has other levels, so it cannot be sent in this form. Therefore the messages of all microbatches
are sent. The rank that adds decodes them first, and the sums in the tree are float32 vectors.

    python -m refimpl.plain.encoding.level_codecs
"""

import numpy as np

from refimpl.plain.encoding.codec import Codec, show


class LevelCodec(Codec):
    """Sends a level of ``bits`` bits for each of n elements, and scales. A sum is a message of one decoded array."""

    def __init__(self, n, bits):
        self.n, self.bits = n, bits

    def pack(self, levels):
        """Return the levels' bits without gaps, (⌈n bits / 8⌉,) uint8. The lowest bit of each level comes first."""
        return np.packbits((levels[:, None] >> np.arange(self.bits)) & 1)

    def unpack(self, packed):
        """Return the levels again, (n,) int64."""
        bits = np.unpackbits(packed, count=self.n * self.bits).reshape(self.n, self.bits)
        return bits.astype(np.int64) @ (1 << np.arange(self.bits))

    def values(self, levels, scales):
        """Return what levels and scales stand for, (n,) float32."""
        raise NotImplementedError

    def merge(self, a, b):
        """Decode both, add."""
        return (self.decode(a) + self.decode(b),)

    def decode(self, message):
        """Return the float32 vector: a microbatch's message is unpacked, a sum is already such a vector."""
        return message[0] if len(message) == 1 else self.values(self.unpack(message[0]), message[1])


class OneBit(LevelCodec):
    """Each element becomes the mean of all that have its sign."""

    feedback = True

    def __init__(self, n):
        super().__init__(n, 1)

    def encode(self, gradient, residual, drawn):
        """Return (signs, (mean of those below 0, mean of the others))."""
        v = gradient + residual
        parts = v[~(v >= 0)], v[v >= 0]  # NaN is in the first part, so the mean of this part is NaN, and is noticed
        # accumulate adds from left to right: the same bits on every processor
        means = [np.add.accumulate(part, dtype=np.float64)[-1] / part.size if part.size else 0 for part in parts]
        return self.pack((v >= 0).astype(np.int64)), np.array(means, np.float32)

    def values(self, levels, scales):
        """Look up the mean."""
        return scales[levels]


class QSGD(LevelCodec):
    """s levels of the norm, rounded at random so that the expectation is exact. Zeros stay zeros."""

    def __init__(self, n, s):
        super().__init__(n, 1 + s.bit_length())
        self.s = s

    def encode(self, gradient, residual, drawn):
        """Return (sign and level of each, (norm,)). The largest level is s; rounding errors cannot lead beyond it."""
        norm = np.float32(np.sqrt(np.sum(gradient.astype(np.float64) ** 2)))
        exact = np.abs(gradient.astype(np.float64)) * self.s / norm if norm else np.zeros(self.n)
        levels = np.minimum(np.floor(exact + drawn).astype(np.int64), self.s)
        return self.pack(2 * levels + (gradient < 0)), np.array([norm])  # the lowest bit is the sign

    def values(self, levels, scales):
        """Return sign · level · norm / s."""
        return np.where(levels & 1, -(levels >> 1), levels >> 1).astype(np.float32) * (scales[0] / np.float32(self.s))


class TernGrad(LevelCodec):
    """Sends -m, 0 or m for each element. clip: first clip to this number of standard deviations; None: do not."""

    def __init__(self, n, clip=2.5):
        super().__init__(n, 2)
        self.clip, self.feedback = clip, clip is not None

    def encode(self, gradient, residual, drawn):
        """Return (levels, (m,)). Level 1 stands for m, level 0 for 0, and level 2 for -m."""
        v = gradient + residual
        if self.clip is not None and v.size:
            most = np.float32(self.clip * v.std(dtype=np.float64))
            v = np.clip(v, -most, most)
        largest = np.abs(v).max(initial=0)
        sent = drawn * largest < np.abs(v)
        return self.pack(np.where(sent, np.where(v < 0, 2, 1), 0)), np.array([largest])

    def values(self, levels, scales):
        """Look up 0, m or -m."""
        return np.array([0, scales[0], -scales[0]], np.float32)[levels]


def main():
    """Add up the gradients of eight microbatches, encoded."""
    gradients = np.random.default_rng(0).standard_normal((8, 1000)).astype(np.float32)
    for name, codec in (("1 bit", OneBit(1000)), ("qsgd 7", QSGD(1000, 7)), ("terngrad", TernGrad(1000))):
        show(name, codec, gradients)


if __name__ == "__main__":
    main()
