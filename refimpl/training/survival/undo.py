"""The earlier values of what the steps since the last commit have changed: rows with their state, and dense arrays."""

from typing import Any

import numpy as np

from kernels import take_rows
from refimpl.server import ReducedGradient, Shard


def arrays_of(shard: Shard) -> dict[str | None, Any]:
    """Return slot -> array of a shard; slot None: the values. Local."""
    return {None: shard.values, **shard.state}


class Undo:
    """The earlier values on this rank. Local. Call ``note`` before each change.

    rows: (shard, row numbers, slot -> rows) of each change since the last commit, in order.
    whole: number of a shard -> (it, slot -> array) at the last commit, if it was noted since. Copies are used again.
    """

    def __init__(self):
        self.rows: list[tuple[Shard, np.ndarray, dict]] = []
        self.whole: dict[int, tuple[Shard, dict]] = {}
        self.noted: set[int] = set()

    def note(self, reduced: list[ReducedGradient]):
        """Keep the values that an update with these gradients will change."""
        for shard, ids in ((piece.shard, piece.ids) for piece in reduced):
            arrays = arrays_of(shard)
            if ids is not None:
                self.rows.append((shard, ids, {slot: take_rows(array, ids) for slot, array in arrays.items()}))
            elif id(shard) not in self.noted:
                self.noted.add(id(shard))
                if id(shard) not in self.whole:
                    self.whole[id(shard)] = shard, {slot: np.empty_like(array) for slot, array in arrays.items()}
                for slot, array in arrays.items():
                    self.whole[id(shard)][1][slot][...] = array

    def roll_back(self):
        """Restore the values of the last commit, the latest changes first."""
        noted = [self.whole[number] for number in self.noted]
        for shard, at, before in [*reversed(self.rows), *((shard, ..., before) for shard, before in noted)]:
            for slot, array in arrays_of(shard).items():
                array[at] = before[slot]
        self.commit()

    def commit(self):
        """Start again: the changes so far will never be undone."""
        self.rows.clear()
        self.noted.clear()
