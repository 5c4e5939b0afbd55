"""The state of a training in the memory of the living ranks, from which a training on fewer ranks continues.

    each rank   says which rows it has, its own and its copies of dead ranks', and which rows it will keep
    decisions   which rank sends which rows to which rank
    Whole       gives rows as a checkpoint's array does; it has those that this rank will keep
"""

import json

import numpy as np
from safetensors.numpy import load

from refimpl.server.moves import move_rows
from refimpl.strategies.blocks import table_shape
from refimpl.training.run.whole import gather_named
from refimpl.training.survival.backup import Part
from refimpl.training.survival.decisions import moves_between, ranges_told, rows_of

PHASE = "recover"


class Whole:
    """An array (``shape``) of which this rank has only the ``rows`` that it will keep, with their numbers. Local."""

    def __init__(self, rows, numbers, of: int, shape):
        self.rows, self.shape, self.place = rows, shape, np.full(of, -1)
        self.place[numbers] = np.arange(len(numbers))

    def __getitem__(self, asked):
        if asked is ...:
            return self.rows[self.place].reshape(self.shape)
        return self.rows[self.place[asked]].reshape(-1, *self.shape[1:])


class Memory:
    """This rank's part of the state after ``step`` steps. The constructor is local.

    parts: its own, and its copies of others'.  states: of microbatches, of ``backup.pack``.
    """

    def __init__(self, step: int, parts: list[Part], states: list):
        self.step, self.parts, self.states = step, parts, states

    def gather(self, parameters, kinds: dict, microbatches: int) -> dict | None:
        """Return key -> array for ``Trainer.restore``; None if some of the state is lost. Collective.

        parameters: of the new training.  kinds: of ``kinds_of``.  microbatches: the number on all ranks.
        """
        comm, variables = parameters.comm, parameters.variables
        held = {v.name: [part for part in self.parts if part.name == v.name] for v in variables}
        told = comm.share_text(json.dumps({v.name: [
            [ranges_told(part.rows) for part in held[v.name]],
            [ranges_told(kept.rows) for kept in parameters.exchange_of[v.name].kept(v.name)]] for v in variables}))
        by_rank = list(map(json.loads, told))
        ways = {v.name: _Way(comm.rank, v, [theirs[v.name] for theirs in by_rank]) for v in variables}
        states = gather_named(comm, self._states, everywhere=True, phase=PHASE)
        if any(way.moves is None for way in ways.values()):
            return None
        if any(f"carry/{v}/" not in states for v in range(microbatches)):
            return None
        tables = {key: ways[v.name].tables([part.arrays[slot] for part in held[v.name]])
                  for key, (v, slot) in kinds.items()}
        for kind in ("rows", "dense"):
            move_rows(comm, [(v.name, ways[v.name].moves, *tables[key]) for key, (v, _) in kinds.items()
                             if v.sparse == (kind == "rows")], PHASE, kind)
        carried = {key: array for key, array in states.items() if not key.endswith("/")}
        return carried | {key: ways[v.name].whole(tables[key][1]) for key, (v, _) in kinds.items()}

    def _states(self) -> dict:
        """Return "carry/V/NAME" -> array of the microbatches whose states this rank has. Local."""
        return {key: array for states in self.states if states.size for key, array in load(states.tobytes()).items()}


class _Way:
    """The way of a variable's rows to the ranks that will keep them. Local.

    told: of each rank, the ranges of rows of each part that it has, and of each that it will keep.
    wanted: the numbers of the rows that this rank will keep.  moves: see ``moves_between``.
    """

    def __init__(self, rank: int, variable, told):
        self.variable, (self.rows, self.width) = variable, table_shape(variable)
        held, wanted = ([np.concatenate([np.empty(0, np.int64), *(
            rows_of(ranges and [range(*r) for r in ranges], self.rows) for ranges in parts)]) for parts in by_rank]
            for by_rank in zip(*told))
        self.wanted, self.moves = wanted[rank], moves_between(self.rows, held, wanted, rank)

    def tables(self, arrays) -> tuple:
        """Return the rows of one slot that this rank has, and room for those that it will keep. arrays: of its parts.
        """
        has = [np.empty((0, self.width), self.variable.dtype), *(array.reshape(-1, self.width) for array in arrays)]
        return np.concatenate(has), np.empty((len(self.wanted), self.width), self.variable.dtype)

    def whole(self, rows) -> Whole:
        """Return the rows that this rank will keep as an array of the variable's shape."""
        return Whole(rows, self.wanted, self.rows, self.variable.shape)
