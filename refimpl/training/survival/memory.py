"""The state of a training in the memory of the living ranks, from which a training on fewer ranks continues.

    each rank   says which rows it has, its own and its copies of dead ranks', and which rows it will keep
    decisions   which rank sends which rows to which rank
    Whole       gives rows as a checkpoint's array does; it has those that this rank will keep
"""

import json
from math import prod

import numpy as np
from safetensors.numpy import load

from refimpl.training.survival.backup import Part
from refimpl.training.survival.decisions import givers, ranges_told, rows_of

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
        told = comm.share_text(json.dumps([[states.size for states in self.states], {v.name: [
            [ranges_told(part.rows) for part in held[v.name]],
            [ranges_told(kept.rows) for kept in parameters.exchange_of[v.name].kept(v.name)]] for v in variables}]))
        sizes, told = zip(*map(json.loads, told))
        ways = {v.name: _Ways(comm, v, *zip(*(theirs[v.name] for theirs in told))) for v in variables}
        states = self._states(comm, sizes)
        if any(way.lost for way in ways.values()) or any(f"carry/{v}/" not in states for v in range(microbatches)):
            return None
        coming = {key: _Coming(comm.rank, ways[v.name], [part.arrays[slot] for part in held[v.name]])
                  for key, (v, slot) in kinds.items()}
        for kind in ("rows", "dense"):
            some = [each for each in coming.values() if each.kind == kind]
            comm.exchange([message for each in some for message in each.sends()],
                          [message for each in some for message in each.receives()], PHASE, kind)
        carried = {key: array for key, array in states.items() if not key.endswith("/")}
        return carried | {key: each.whole() for key, each in coming.items()}

    def _states(self, comm, sizes) -> dict:
        """Return "carry/V/NAME" -> array of all microbatches. sizes: of the states of each rank. Collective."""
        others = [rank for rank in range(comm.size) if rank != comm.rank]
        boxes = [(rank, np.empty(size, np.uint8)) for rank in others for size in sizes[rank]]
        comm.exchange([(rank, states, {"": states.size}) for rank in others for states in self.states],
                      [(rank, box, {"": box.size}) for rank, box in boxes], PHASE, "control")
        found = {}
        for states in [*self.states, *(box for _, box in boxes)]:
            found |= load(states.tobytes()) if states.size else {}
        return found


class _Ways:
    """Which rank sends which rows of a variable to which rank. Local.

    held, wanted: the ranges of each part, by rank.
    leave[r]: places, among the rows that this rank has, of those for rank r.  come[r]: places, among the rows that it
    will keep, of those from rank r.  lost: whether some rows are on no rank.
    """

    def __init__(self, comm, variable, held, wanted):
        self.variable, self.rows = variable, variable.shape[0] if variable.shape else 1
        held, wanted = ([np.concatenate([np.empty(0, np.int64), *(
            rows_of(ranges and [range(*r) for r in ranges], self.rows) for ranges in parts)]) for parts in by_rank]
            for by_rank in (held, wanted))
        from_whom = givers(self.rows, held, wanted)
        self.lost = any((giver < 0).any() for giver in from_whom)
        place = np.full(self.rows, -1)
        place[held[comm.rank]] = np.arange(len(held[comm.rank]))
        self.leave = [place[ids[giver == comm.rank]] for ids, giver in zip(wanted, from_whom)]
        self.come = [np.flatnonzero(from_whom[comm.rank] == rank) for rank in range(comm.size)]
        self.wanted = wanted[comm.rank]


class _Coming:
    """One slot of a variable under way. Local: the caller exchanges the messages. arrays: of this rank's parts."""

    def __init__(self, me: int, ways: _Ways, arrays):
        width, dtype = prod(ways.variable.shape[1:]), ways.variable.dtype
        self.me, self.ways, self.kind = me, ways, "rows" if ways.variable.sparse else "dense"
        self.table = np.concatenate([np.empty((0, width), dtype), *(array.reshape(-1, width) for array in arrays)])
        self.boxes = {rank: np.empty((len(places), width), dtype)
                      for rank, places in enumerate(ways.come) if rank != me}

    def sends(self) -> list:
        """Return the messages that this rank sends, for ``exchange``."""
        return [self._message(rank, self.table[self.ways.leave[rank]]) for rank in self.boxes]

    def receives(self) -> list:
        """Return the messages that this rank receives, for ``exchange``."""
        return [self._message(rank, box) for rank, box in self.boxes.items()]

    def whole(self) -> Whole:
        """Return the rows that this rank will keep, when all have arrived."""
        ways, result = self.ways, np.empty((len(self.ways.wanted), *self.table.shape[1:]), self.table.dtype)
        for rank, box in (self.boxes | {self.me: self.table[ways.leave[self.me]]}).items():
            result[ways.come[rank]] = box
        return Whole(result, ways.wanted, ways.rows, ways.variable.shape)

    def _message(self, rank, rows):
        return rank, rows, {self.ways.variable.name: rows.size}
