"""A codec encodes gradients so that they take fewer bytes. This file has the two codecs that send every element.

If each *rank* encoded its gradient, the answer would depend on the number of ranks. So each *microbatch* is encoded by
itself, and messages are merged in the order of the microbatch tree (``tree``): any number of ranks gives the same bits.

    Rounded(bf16 or fp16)  2n bytes      round(g); a sum of two is rounded again, at every node of the tree
    Integers(16)           2n bytes      floor(g 2^k + u), u uniform in [0, 1): its expectation is g 2^k

Sums of integers are exact, so ``Integers`` gives the same bits in any order, also on a ring. The other codecs are in
``sparse_codecs``, ``level_codecs`` and ``power_sgd``.

    python -m refimpl.plain.encoding.codecs
"""

import hashlib

import numpy as np

from refimpl.plain.adding.tree import sum_on


class Codec:
    """Encodes the gradient of one variable in one microbatch. A message is a tuple of arrays."""

    feedback = False
    """Whether what was left out is added to the next gradient. A codec needs it if its errors do not average to 0."""

    def encode(self, gradient, residual, drawn):
        """Return the message of gradient + residual, both (n,) float32. drawn: (n,) random numbers in [0, 1), the same
        on any number of ranks, for codecs that round at random; others take None."""
        raise NotImplementedError

    def merge(self, a, b):
        """Return the message of a node of the tree, from those of its two halves."""
        raise NotImplementedError

    def decode(self, message):
        """Return what a message stands for, (n,) float32."""
        raise NotImplementedError


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


def bytes_of(message):
    """Return the bytes of a message."""
    return sum(part.nbytes for part in message)


def show(name, codec, gradients):
    """Print a codec's bytes, its error, and the hash of the sum, the same on any number of ranks."""
    nothing, total = np.zeros_like(gradients[0]), gradients.astype(np.float64).sum(axis=0)
    drawn = np.random.default_rng(1).random(gradients.shape)
    messages = [codec.encode(g, nothing, u) for g, u in zip(gradients, drawn)]
    sums = [codec.decode(sum_on(ranks, messages, codec.merge)) for ranks in (1, 2, 3, 5, 8)]
    [digest] = {hashlib.sha256(each.tobytes()).hexdigest()[:8] for each in sums}
    error = np.abs(sums[0] - total).max() / np.abs(total).max()
    print(f"{name:10} {bytes_of(messages[0]):6} B of {gradients[0].nbytes}, error {error:7.1e}, on 1, 2, 3, 5 and 8 "
          f"ranks the sum {digest}")


def main():
    """Add up the gradients of eight microbatches, encoded."""
    gradients = np.random.default_rng(0).standard_normal((8, 1000)).astype(np.float32)
    for kind in ("bf16", "fp16"):
        show(kind, Rounded(kind), gradients)
    show("integers", Integers(16, len(gradients), np.abs(gradients).max()), gradients)


if __name__ == "__main__":
    main()
