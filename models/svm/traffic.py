"""What the ranks of a training tell each other: numbers of pairs, and features. It counts rounds and numbers."""

import numpy as np


class OneRank:
    """The ``ranks`` of a ``Solver`` that trains on one rank."""

    rank, size = 0, 1

    def gather(self, array, phase: str):
        """Return the arrays of all ranks, by rank: (size, ...). Collective."""
        return array[None]

    def spread(self, arrays, phase: str):
        """Send ``arrays[rank]`` to all ranks, receive the others into ``arrays``; empty ones stay. Collective."""


class SvmTraffic:
    """The exchanges of one training. Collective, but for ``bytes_of``.

    rounds: exchanges so far.  gathered: numbers that each rank has told all others, apart from its terms.
    sent: (n,), numbers sent of each sample's features.  terms: gathers of one number of each sample.
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
        self.rounds += 1
        size, arrays = self.ranks.size, []
        owned = [[n for n in numbers if n % size == owner] for owner in range(size)]
        for owner, theirs in enumerate(owned):
            mine = owner == self.ranks.rank and theirs
            arrays.append(self.packing.pack(list(map(vector_of, theirs))) if mine else
                          np.empty(self.packing.count(theirs)))
        self.ranks.spread(arrays, "rows")
        for number in numbers:
            self.sent[number] += self.packing.count([number])
        return {number: vector for theirs, array in zip(owned, arrays) if theirs
                for number, vector in zip(theirs, self.packing.unpack(array, theirs))}

    def bytes_of(self, rank: int, size: int) -> int:
        """Return the bytes that a rank sends when these exchanges run on ``size`` ranks. Local."""
        numbers = self.gathered + self.terms * -(-len(self.sent) // size) + int(self.sent[rank::size].sum())
        return 8 * (size - 1) * numbers
