"""The state of a training in the memory of the living ranks, as a training on fewer ranks restores it.

    each rank   tells which rows it has, its own and its copies of dead ranks', and which it is to keep from now on
    decisions   which rank sends which rows to which rank
    Whole       is asked for rows, as a checkpoint's arrays are, and has those that this rank is to keep
"""

import json
from math import prod

import numpy as np
from safetensors.numpy import load

from refimpl.training.run.whole import key_of_array
from refimpl.training.survival.backup import Part
from refimpl.training.survival.decisions import givers, rows_of

PHASE = "recover"


class Whole:
    """A whole array of which those rows are here that this rank is to keep. Local.

    rows: (k, w), of these numbers; of how many.  shape: the array's.
    """

    def __init__(self, rows, numbers, of: int, shape):
        self.rows, self.shape, self.place = rows, shape, np.full(of, -1)
        self.place[numbers] = np.arange(len(numbers))

    def __getitem__(self, asked):
        if asked is ...:
            return self.rows[self.place].reshape(self.shape)
        return self.rows[self.place[asked]].reshape(-1, *self.shape[1:])


class Memory:
    """What this rank has of the state after ``step`` steps. Local to make.

    parts: what it keeps, and its copies of what others keep.  states: of microbatches, as ``backup.pack`` has them.
    """

    def __init__(self, step: int, parts: list[Part], states: list):
        self.step, self.parts, self.states = step, parts, states

    def gather(self, parameters, slots: list[tuple[str, str | None]], microbatches: int) -> dict | None:
        """Return key -> array, as ``Trainer.restore`` takes them; None if some of the state is lost. Collective.

        parameters: of the new training.  slots: of ``slots_of``.  microbatches: how many there are on all ranks.
        """
        comm, variables = parameters.comm, parameters.variables
        held = {v.name: [part for part in self.parts if part.name == v.name] for v in variables}
        told = comm.share_text(json.dumps({v.name: [
            [_told(part.rows) for part in held[v.name]],
            [_told(kept.rows) for kept in parameters.exchange_of[v.name].kept(v.name)]] for v in variables}))
        told = [json.loads(text) for text in told]
        ways = {v.name: _Ways(comm, v, *zip(*(theirs[v.name] for theirs in told))) for v in variables}
        states = self._states(comm)
        if any(way.lost for way in ways.values()) or any(f"carry/{v}/" not in states for v in range(microbatches)):
            return None
        carried = {key: array for key, array in states.items() if not key.endswith("/")}
        return carried | {key_of_array(name, slot): ways[name].bring(
            [part.arrays[slot] for part in held[name]]) for name, slot in slots}

    def _states(self, comm) -> dict:
        """Return "carry/V/NAME" -> array, of all microbatches. Collective."""
        count = max(comm.gather_numbers([len(self.states)], "the states of microbatches")[:, 0])
        mine = self.states + [np.empty(0, np.uint8)] * (count - len(self.states))
        sizes = comm.gather_numbers([states.size for states in mine], "the states of microbatches")
        boxes = [(rank, np.empty(size, np.uint8)) for rank in range(comm.size) if rank != comm.rank
                 for size in sizes[rank]]
        comm.exchange([(rank, states, {"": states.size}) for rank in range(comm.size) if rank != comm.rank
                       for states in mine], [(rank, box, {"": box.size}) for rank, box in boxes], PHASE, "control")
        found = {}
        for states in [*mine, *(box for _, box in boxes)]:
            found |= load(states.tobytes()) if states.size else {}
        return found


def _told(rows) -> list | None:
    return None if rows is None else [[r.start, r.stop, r.step] for r in rows]


class _Ways:
    """Which rank sends which rows of a variable to which rank. Local, but for ``bring``.

    held, wanted: the ranges of each part, by rank.
    """

    def __init__(self, comm, variable, held, wanted):
        self.comm, self.variable, self.rows = comm, variable, variable.shape[0] if variable.shape else 1
        self.held, self.wanted = ([np.concatenate([np.empty(0, np.int64), *(
            rows_of(ranges and [range(*r) for r in ranges], self.rows) for ranges in parts)]) for parts in by_rank]
            for by_rank in (held, wanted))
        self.givers = givers(self.rows, self.held, self.wanted)
        self.lost = any((giver < 0).any() for giver in self.givers)

    def bring(self, arrays) -> Whole:
        """Return the rows that this rank is to keep. arrays: of its parts, one slot of each. Collective."""
        me, width, dtype = self.comm.rank, prod(self.variable.shape[1:]), self.variable.dtype
        table = np.concatenate([np.empty((0, width), dtype), *(array.reshape(-1, width) for array in arrays)])
        place = np.full(self.rows, -1)
        place[self.held[me]] = np.arange(len(self.held[me]))
        result, name = np.empty((len(self.wanted[me]), width), dtype), self.variable.name
        boxes, sends, kind = {}, [], "rows" if self.variable.sparse else "dense"
        for rank in range(self.comm.size):
            leaving = table[place[self.wanted[rank][self.givers[rank] == me]]]
            if rank == me:
                result[self.givers[me] == me] = leaving
                continue
            sends.append((rank, leaving, {name: leaving.size}))
            boxes[rank] = np.empty((np.count_nonzero(self.givers[me] == rank), width), dtype)
        self.comm.exchange(sends, [(r, box, {name: box.size}) for r, box in boxes.items()], PHASE, kind)
        for rank, box in boxes.items():
            result[self.givers[me] == rank] = box
        return Whole(result, self.wanted[me], self.rows, self.variable.shape)
