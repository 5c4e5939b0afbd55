"""What the ranks of a training tell each other: numbers of pairs, and features. It counts rounds and numbers."""

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
        """Send ``arrays[rank]`` to all ranks, receive the others into ``arrays``; empty ones stay. Collective."""


class SvmTraffic:
    """The exchanges of one training. Collective, but for ``bytes_by_rank``.

    rounds: exchanges so far.  gathered: numbers that each rank has told all others, apart from its terms.
    sent: (n,), numbers that each sample's owner has sent of it: features, and K with the samples of a block.  terms:
    gathers of one number of each sample.
    """

    def __init__(self, ranks, packing, count: int):
        self.ranks, self.packing, self.rounds, self.gathered, self.terms = ranks, packing, 0, 0, 0
        self.sent = np.zeros(count, np.int64)

    def gather(self, array, phase="pairs"):
        """Return the arrays of all ranks, by rank: (size, ...)."""
        self.rounds, self.gathered = self.rounds + 1, self.gathered + array.size
        return self.ranks.gather(array, phase)

    def gather_terms(self, ids, values):
        """Return one number for each sample in no order, padded with zeros. values: (k,), of this rank's samples."""
        self.rounds, self.terms = self.rounds + 1, self.terms + 1
        padded = np.zeros(-(-len(self.sent) // self.ranks.size))
        padded[:len(ids)] = values
        return self.ranks.gather(padded, "objective").ravel()

    def features(self, numbers, vector_of) -> dict:
        """Return number -> features of samples, from their owners. vector_of: number -> this rank's features."""
        found = self._from_owners(numbers, self.packing.counts(numbers),
                                  lambda own: self.packing.pack([vector_of(number) for number in own.tolist()]))
        return {number: vector for theirs, array in found
                for number, vector in zip(theirs.tolist(), self.packing.unpack(array, theirs))}

    def columns(self, numbers, length: int, columns_of):
        """Return ``length`` numbers of each sample, from the owners: (len(numbers), length). numbers: rising.

        columns_of: some of this rank's samples -> their numbers, (k, length).
        """
        found = self._from_owners(numbers, np.full(len(numbers), length), lambda own: columns_of(own).ravel())
        columns = np.empty((len(numbers), length))
        for theirs, array in found:
            columns[np.searchsorted(numbers, theirs)] = array.reshape(-1, length)
        return columns

    def _from_owners(self, numbers, counts, packed_of):
        """Return (an owner's samples among ``numbers``, its array) of each owner of some.

        counts: how many numbers each sample is.  packed_of: this rank's samples -> their numbers as one array.
        """
        self.rounds += 1
        numbers, size, rank = np.asarray(numbers), self.ranks.size, self.ranks.rank
        owners = numbers % size
        owned = [numbers[owners == owner] for owner in range(size)]
        arrays = [packed_of(theirs) if owner == rank and len(theirs) else np.empty(counts[owners == owner].sum())
                  for owner, theirs in enumerate(owned)]
        self.ranks.spread(arrays, "rows")
        self.sent[numbers] += counts
        return [(theirs, array) for theirs, array in zip(owned, arrays) if len(theirs)]

    def bytes_by_rank(self, size: int):
        """Return the bytes that each of ``size`` ranks sends in these exchanges: (size,) int64. Local.

        A training on one rank has the exchanges of ``size`` ranks, if ``ranks.planned`` was ``size``: then its cache
        holds as many rows as theirs.
        """
        own = np.bincount(np.arange(len(self.sent)) % size, self.sent, size).astype(np.int64)
        return 8 * (size - 1) * (self.gathered + self.terms * -(-len(self.sent) // size) + own)
