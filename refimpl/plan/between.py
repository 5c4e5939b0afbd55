"""Who sends whom how many bytes, without a place for each pair: N x N numbers of 16,384 ranks are 2 GiB.

    B[i, j] = entry (i, j) of a sparse matrix                                      rows that a rank has for an owner
            + the sum over products of out[i] into[j], if sends[i] = takes[j]      what all send to all, or to owners
    B[i, i] = 0
"""

from typing import NamedTuple

import numpy as np


class Product(NamedTuple):
    """Rank i sends rank j out[i] into[j] bytes if sends[i] = takes[j] and i != j: all four are (N,) int64 arrays."""

    out: np.ndarray
    into: np.ndarray
    sends: np.ndarray
    takes: np.ndarray

    @property
    def T(self) -> "Product":
        """The product in which each rank receives what it sent. Local."""
        return Product(self.into, self.out, self.takes, self.sends)

    def received(self, part=0):
        """Return what each rank receives from the ranks of its own part: (N,). part: (N,) int64; 0: all are one."""
        at, wanted = (part * (1 + max(self.sends.max(), self.takes.max())) + of for of in (self.sends, self.takes))
        total = np.bincount(at, self.out, 1 + max(at.max(), wanted.max()))
        return self.into * (total[wanted] - np.where(at == wanted, self.out, 0))

    def largest(self) -> float:
        """Return the most that a rank sends another. Local."""
        order, groups = np.argsort(self.out, kind="stable"), 1 + max(self.sends.max(), self.takes.max())
        most, second, first = np.zeros(groups, np.int64), np.zeros(groups, np.int64), np.full(groups, -1)
        first[self.sends[order]] = order  # of each group's ranks the last: that with the most
        np.maximum.at(most, self.sends, self.out)
        np.maximum.at(second, self.sends, np.where(first[self.sends] == np.arange(order.size), 0, self.out))
        best = np.where(first[self.takes] == np.arange(order.size), second[self.takes], most[self.takes])
        return float((self.into * best).max())

    def plus(self, other: "Product") -> "Product | None":
        """Return the sum with a product that differs in one factor at most; None for another. Local."""
        same = [np.array_equal(*pair) for pair in zip(self, other)]
        if not all(same[2:]) or not any(same[:2]):
            return None
        return self._replace(into=self.into + other.into) if same[0] else self._replace(out=self.out + other.out)


class Between:
    """An (N, N) int64 matrix of bytes from rank to rank, as a sparse matrix or as products of disjoint pairs.

    ``numpy.asarray`` of it is the matrix. Its numbers, sums and transposes are of this kind, too. Local.
    """

    def __init__(self, entries=None, products: tuple[Product, ...] = ()):
        self.entries, self.products = entries, products

    @classmethod
    def of(cls, matrix) -> "Between":
        """Return a matrix as one. matrix: (N, N) array, or one already."""
        from scipy.sparse import csr_array  # SciPy takes its time to load

        return matrix if isinstance(matrix, Between) else cls(csr_array(matrix))

    @classmethod
    def listed(cls, ranks: int, source, destination, nbytes) -> "Between":
        """Return the sum of what is listed: (n,) int64 each. What a rank sends itself is left out."""
        from scipy.sparse import coo_array

        some = source != destination
        return cls(coo_array((nbytes[some], (source[some], destination[some])), shape=(ranks, ranks)).tocsr())

    @classmethod
    def to_all(cls, out) -> "Between":
        """Return what is sent if each rank sends each other one out[rank] bytes. out: (N,) int64."""
        nought = np.zeros_like(out)
        return cls(products=(Product(out, nought + 1, nought, nought),))

    @property
    def T(self) -> "Between":
        """The matrix of what goes back."""
        return Between(None if self.entries is None else self.entries.T.tocsr(), tuple(p.T for p in self.products))

    def __rmul__(self, number) -> "Between":
        return Between(None if self.entries is None else self.entries * number,
                       tuple(p._replace(out=p.out * number) for p in self.products))

    def __add__(self, other) -> "Between":
        if np.ndim(other) == 0:  # the 0 that sums begin with
            return self
        other = Between.of(other)
        if self.entries is not None and other.entries is not None:
            return Between(self.entries + other.entries)
        if len(self.products) == len(other.products):
            sums = tuple(map(Product.plus, self.products, other.products))
            if None not in sums:
                return Between(products=sums)
        return Between.of(np.asarray(self) + np.asarray(other))

    def __radd__(self, other) -> "Between":
        return self + other

    def __array__(self, dtype=None, copy=None):
        if self.entries is not None:
            return self.entries.toarray()
        found = sum(np.outer(p.out, p.into) * (p.sends[:, None] == p.takes) for p in self.products)
        np.fill_diagonal(found, 0)
        return found

    def __getitem__(self, places):
        return np.asarray(self)[places]

    def any(self) -> bool:
        """Return whether anything is sent."""
        return self.largest() > 0

    def largest(self) -> float:
        """Return the most bytes from a rank to another."""
        if self.entries is not None:
            return float(self.entries.data.max(initial=0))
        return max(p.largest() for p in self.products)

    def received(self):
        """Return the bytes that each rank is sent: (N,) float64."""
        return self._sums()[0]

    def messages(self):
        """Return to how many ranks each rank sends, and how many send to it, added up: (N,) int64."""
        if self.entries is not None:
            some = self.entries > 0
            return np.bincount(some.indices, minlength=some.shape[0]) + np.diff(some.indptr)
        ones = [Product(p.out > 0, p.into > 0, p.sends, p.takes) for p in self.products]
        return sum(each.received() for one in ones for each in (one, one.T)).astype(np.int64)

    def by_machine(self, machine) -> np.ndarray:
        """Return (3, M) bytes that leave each machine's card, enter it, and go between its ranks.

        machine: (N,) int64, of each rank.
        """
        (received, sent), (taken_inside, inside) = self._sums(), self._sums(machine)
        return np.array([np.bincount(machine, of) for of in (sent - inside, received - taken_inside, inside)])

    def _sums(self, part=None):
        """Return what each rank receives, and sends: (N,) float64; of ranks of its own part, if there are parts."""
        if self.entries is None:
            return [sum(p.received(0 if part is None else part) for p in way)
                    for way in (self.products, [p.T for p in self.products])]
        found = self.entries.tocoo()
        nbytes = found.data if part is None else found.data * (part[found.row] == part[found.col])
        return [np.bincount(ranks, nbytes, found.shape[0]) for ranks in (found.col, found.row)]
