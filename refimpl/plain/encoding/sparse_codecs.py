"""Codecs that send few elements: (places, values), 8 bytes each, merged as row gradients are merged.

    TopK(k)            the k elements of largest |v|; among equal ones the first
    Threshold(τ)       τ or -τ where |v| > τ                                                (Strom)
    AdaComp(bin)       where |v + g| >= max |v| of the bin: what has lately grown is sent soon

All of these are biased, so they encode v = g + e: the gradient and what was left out before (``residuals``). When two
messages are merged, the places of both are kept. So a sum over V microbatches has up to 8 min(n, V k) bytes.

    python -m refimpl.plain.encoding.sparse_codecs
"""

import numpy as np

from refimpl.plain.adding.rows import Rows, merge_rows
from refimpl.plain.encoding.codec import Codec, show


class SparseCodec(Codec):
    """Sends the elements that ``chosen`` names. n: length of the variable."""

    feedback = True

    def __init__(self, n):
        self.n = n

    def chosen(self, v, gradient):
        """Return the places to send, sorted int64."""
        raise NotImplementedError

    def values(self, v):
        """Return what is sent of the chosen elements ``v``."""
        return v

    def encode(self, gradient, residual, drawn):
        """Return (places, values)."""
        v = gradient + residual
        places = self.chosen(v, gradient)
        return places.astype(np.int32), self.values(v[places])

    def merge(self, a, b):
        """Return the union of the places; where both have one, the sum."""
        rows = [Rows(places.astype(np.int64), values[:, None]) for places, values in (a, b)]
        merged = merge_rows(*rows)
        return merged.ids.astype(np.int32), merged.rows[:, 0]

    def decode(self, message):
        """Return the values at their places, zeros elsewhere."""
        places, values = message
        whole = np.zeros(self.n, np.float32)
        whole[places] = values
        return whole


class TopK(SparseCodec):
    """The k elements of largest magnitude."""

    def __init__(self, n, k):
        super().__init__(n)
        self.k = k

    def chosen(self, v, gradient):
        """Return the places of the k largest |v|. A stable sort takes the first among equal ones."""
        return np.sort(np.argsort(-np.abs(v), kind="stable")[:self.k])


class Threshold(SparseCodec):
    """Strom 2015: an element is sent as τ or -τ when it has grown beyond τ."""

    def __init__(self, n, tau):
        super().__init__(n)
        self.tau = np.float32(tau)

    def chosen(self, v, gradient):
        """Return where |v| > τ."""
        return np.flatnonzero(np.abs(v) > self.tau)

    def values(self, v):
        """Return τ with the sign of v."""
        return np.copysign(self.tau, v)


class AdaComp(SparseCodec):
    """In each bin of ``size`` elements the gradient decides how many are sent. No ratio has to be chosen."""

    def __init__(self, n, size=50):
        super().__init__(n)
        self.size = size

    def chosen(self, v, gradient):
        """Return where |v + g| reaches the largest |v| of its bin, if that is not 0."""
        bins = np.arange(self.n) // self.size  # the bin of each element
        # reduceat: the maximum of each bin; [bins]: for each element that of its bin
        largest = np.maximum.reduceat(np.abs(v), np.arange(0, self.n, self.size))[bins]
        return np.flatnonzero((np.abs(v + gradient) >= largest) & (largest > 0))


def main():
    """Add up the gradients of eight microbatches, encoded."""
    gradients = np.random.default_rng(0).standard_normal((8, 1000)).astype(np.float32)
    show("top 1 %", TopK(1000, 10), gradients)
    show("threshold", Threshold(1000, 2.5), gradients)
    show("adacomp", AdaComp(1000), gradients)


if __name__ == "__main__":
    main()
