"""The exchanges between the ranks of a training: numbers of pairs, and features. It counts rounds and numbers."""

import numpy as np


class OneRank:
    """The ``ranks`` of a ``Solver`` that trains on one rank. planned: see ``SvmTraffic.bytes_by_rank``."""

    rank, size = 0, 1

    def __init__(self, planned: int = 1):
        self.planned = planned

    def gather(self, array, phase: str):
        """Return the arrays of all ranks, by rank: (size, ...). Collective."""
        return array[None]

    def spread(self, arrays, phase: str):
        """Send ``arrays[rank]`` to all ranks, and receive the others into ``arrays``; empty ones stay. Collective."""


class SvmTraffic:
    """The exchanges of one training. Collective, except ``bytes_by_rank``.

    rounds: exchanges so far.  gathered: numbers that each rank has sent to all others, without its terms.
    sent: (n,), numbers that each sample's owner has sent for it: features, and K with the samples of a block.
    terms: gathers of one number for each sample.
    """

    def __init__(self, ranks, packing, count: int):
        self.ranks, self.packing, self.rounds, self.gathered, self.terms = ranks, packing, 0, 0, 0
        self.sent = np.zeros(count, np.int64)

    def gather(self, array):
        """Return the arrays of all ranks, by rank: (size, ...)."""
        self.rounds, self.gathered = self.rounds + 1, self.gathered + array.size
        return self.ranks.gather(array, "pairs")

    def gather_terms(self, ids, values):
        """Return one number for each sample, unordered, padded with zeros. values: (k,), of this rank's samples."""
        self.rounds, self.terms = self.rounds + 1, self.terms + 1
        padded = np.zeros(-(-len(self.sent) // self.ranks.size))
        padded[:len(ids)] = values
        return self.ranks.gather(padded, "objective").ravel()

    def features(self, numbers, vectors_of) -> list:
        """Return the features of samples, from their owners. vectors_of: some of this rank's samples -> theirs."""
        absent = np.full(len(numbers), True)
        return self.columns_and_features(numbers, absent, 0, lambda own: np.empty(0), vectors_of)[1]

    def columns_and_features(self, numbers, absent, length: int, columns_of, vectors_of):
        """Return (``length`` numbers of each sample: (k, length), the features of the ``absent``: a list), from owners.

        numbers: (k,).  absent: (k,) bool.  columns_of: some of this rank's samples -> their numbers, (.., length).
        vectors_of: as for ``features``.  Without anything to send there is no exchange.
        """
        counts = length + absent * self.packing.counts(numbers)
        parts = [np.flatnonzero(numbers % self.ranks.size == owner) for owner in range(self.ranks.size)]
        arrays, own = [np.empty(counts[part].sum()) for part in parts], parts[self.ranks.rank]
        arrays[self.ranks.rank] = np.concatenate([
            columns_of(numbers[own]).ravel(), self.packing.pack(vectors_of(numbers[own[absent[own]]]))])
        if counts.any():
            self.rounds += 1
            self.sent[numbers] += counts
            self.ranks.spread(arrays, "rows")
        columns, vectors = np.empty((len(numbers), length)), {}
        for part, array in zip(parts, arrays):
            end, theirs = len(part) * length, part[absent[part]]
            columns[part] = array[:end].reshape(len(part), length)
            vectors |= zip(theirs.tolist(), self.packing.unpack(array[end:], numbers[theirs]))
        return columns, [vectors[place] for place in np.flatnonzero(absent).tolist()]

    def bytes_by_rank(self, size: int):
        """Return the bytes that each of ``size`` ranks sends in these exchanges: (size,) int64. Local.

        A training on one rank has the exchanges of ``size`` ranks if ``ranks.planned`` was ``size``: then its cache
        holds as many rows as theirs.
        """
        own = np.bincount(np.arange(len(self.sent)) % size, self.sent, size).astype(np.int64)
        return 8 * (size - 1) * (self.gathered + self.terms * -(-len(self.sent) // size) + own)
