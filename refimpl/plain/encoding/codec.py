"""What a codec is: it encodes gradients so that they take fewer bytes.

If each *rank* encoded its gradient, the answer would depend on the number of ranks. So each *microbatch* is encoded by
itself, and messages are merged in the order of the microbatch tree (``tree``): any number of ranks gives the same bits.
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
