"""A step that is undone: the earlier values of what the steps since the last commit have changed, rows with their state
and dense arrays; and the sums of gradients that were formed, so that they are not computed again.
"""

import numpy as np

from kernels import take_rows
from refimpl.server import ReducedGradient, Shard


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
            arrays = shard.arrays
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
            for slot, array in shard.arrays.items():
                array[at] = before[slot]
        self.commit()

    def commit(self):
        """Start again: the changes so far will never be undone."""
        self.rows.clear()
        self.noted.clear()


def copied(carried: dict[int, dict]) -> dict[int, dict]:
    """Return a copy of the states of microbatches: V -> NAME -> array. Local."""
    return {v: {name: np.array(array) for name, array in state.items()} for v, state in carried.items()}


class Formed:
    """What a rank has computed in step ``number`` (from 0) before any exchange. Local.

    losses: (microbatch, loss).  sums: of each exchange, node -> variable -> sum.  carried: microbatch -> state after
    the step, for all microbatches of this rank.
    """

    def __init__(self, number: int, losses, sums: list[dict], carried: dict[int, dict]):
        self.number, self.losses, self.states = number, dict(losses), copied(carried)
        self.nodes: dict = {}
        for formed in sums:
            for node, by_name in formed.items():
                self.nodes.setdefault(node, {}).update(by_name)
        self.first = {node.first_leaf: node for node in self.nodes}

    def has(self, number: int, microbatch: int) -> bool:
        """Return whether the sums include a microbatch of this step."""
        return number == self.number and microbatch in self.states

    def use(self, microbatch: int, batch, exchanges) -> list:
        """Add the sums instead of computing a microbatch; return [(microbatch, loss)], or [] without examples.

        exchanges: of the step. Microbatches must come in order.
        """
        node = self.first.get(microbatch)
        exchanges.put(microbatch, node, self.nodes.get(node))
        if batch is None:
            return []
        batch.state.clear()
        batch.state.update(copied({microbatch: self.states[microbatch]})[microbatch])
        return [(microbatch, self.losses[microbatch])]
