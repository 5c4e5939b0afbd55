"""What the steps since the last commit have changed, as it was before: rows with their slots, and dense arrays."""

from typing import Any, NamedTuple

import numpy as np

from kernels import take_rows
from refimpl.server import ReducedGradient, Shard


def arrays_of(shard: Shard) -> dict[str | None, Any]:
    """Return slot -> array of all that a shard holds; slot None: the values. Local."""
    return {None: shard.values, **shard.state}


class _Rows(NamedTuple):
    shard: Shard
    changed: np.ndarray  # (rows,) bool
    before: list  # (row numbers, slot -> rows)


class _Whole(NamedTuple):
    shard: Shard
    before: dict  # slot -> array


class Undo:
    """The record, of this rank. Local. To be told what changes before it does: ``note``.

    A row is kept as it was at the last commit, however often it changes; a whole array, too.
    """

    def __init__(self):
        self.rows: dict[int, _Rows] = {}
        self.whole: dict[int, _Whole] = {}
        self.noted: set[int] = set()  # of whole arrays: their copies are used again

    def note(self, reduced: list[ReducedGradient]):
        """Keep what an update with these gradients will change."""
        for shard, ids in ((piece.shard, piece.ids) for piece in reduced):
            if ids is None:
                self._note_whole(shard)
            else:
                self._note_rows(shard, ids)

    def _note_whole(self, shard):
        if id(shard) in self.noted:
            return
        kept = self.whole.setdefault(id(shard), _Whole(shard, {}))
        for slot, array in arrays_of(shard).items():
            if slot not in kept.before:
                kept.before[slot] = np.empty_like(array)
            kept.before[slot][...] = array
        self.noted.add(id(shard))

    def _note_rows(self, shard, ids):
        kept = self.rows.get(id(shard))
        if kept is None:
            kept = self.rows[id(shard)] = _Rows(shard, np.zeros(len(shard.values), bool), [])
        new = ids[~kept.changed[ids]]
        kept.changed[new] = True
        kept.before.append((new, {slot: take_rows(array, new) for slot, array in arrays_of(shard).items()}))

    def roll_back(self):
        """Put everything back as it was at the last commit."""
        for shard, _, before in self.rows.values():
            arrays = arrays_of(shard)
            for ids, rows in before:
                for slot, array in arrays.items():
                    array[ids] = rows[slot]
        for number in self.noted:
            shard, before = self.whole[number]
            for slot, array in arrays_of(shard).items():
                array[...] = before[slot]
        self.commit()

    def commit(self):
        """Begin anew: what is now shall never be undone."""
        self.noted.clear()
        for _, changed, before in self.rows.values():
            for ids, _ in before:
                changed[ids] = False
            before.clear()
