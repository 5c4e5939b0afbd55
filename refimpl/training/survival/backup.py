"""Copies of what one rank alone keeps, at its partner: rows with their slots, dense pieces, states of microbatches.

    rank --- how many rows of each part follow, how many bytes of states ---> partner      8 (parts + 1) bytes
    rank --- numbers of the changed rows; values and slots of these rows ---> partner      k (8 + w (1 + slots)) bytes
    all ranks agree that the steps are done: the partner puts what has come into its copies

At the beginning all parts are sent whole, without numbers; later the rows that have changed. A dense piece is always
sent whole. A replica is sent nowhere. Bytes are counted in the phase "backup".
"""

import json
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import save

from kernels import take_rows
from refimpl.server import Holding
from refimpl.training.survival.decisions import partner_of
from refimpl.training.survival.undo import Undo, arrays_of
from refimpl.transport import Communicator

PHASE = "backup"
KINDS = ("control", "indices", "rows", "dense")


class Part(NamedTuple):
    """Some rows of a variable.

    rows: ranges of their numbers; None: the whole variable.  arrays: slot (None: values) -> array, rows in their order.
    """

    name: str
    rows: list[range] | None
    sparse: bool
    arrays: dict[str | None, Any]

    @classmethod
    def of(cls, kept: Holding) -> "Part":
        """Return what a shard holds. Local."""
        return cls(kept.shard.variable.name, kept.rows, kept.shard.variable.sparse, arrays_of(kept.shard))

    def told(self) -> list:
        """Return what another rank must know of it to keep a copy: JSON. Local."""
        rows = None if self.rows is None else [[r.start, r.stop, r.step] for r in self.rows]
        return [self.name, rows, self.sparse,
                [[slot, array.shape, array.dtype.str] for slot, array in self.arrays.items()]]

    @classmethod
    def made(cls, told: list) -> "Part":
        """Return a part as it was told, its arrays still without content. Local."""
        name, rows, sparse, arrays = told
        return cls(name, None if rows is None else [range(*r) for r in rows], sparse,
                   {slot: np.empty(shape, dtype) for slot, shape, dtype in arrays})

    def some(self, count: int) -> dict:
        """Return slot -> array for so many rows that come; of a dense part, for all of it. Local."""
        return {slot: np.empty((count, *array.shape[1:]) if self.sparse else array.shape, array.dtype)
                for slot, array in self.arrays.items()}


class Backups:
    """What others keep for this rank, and the copies that it keeps for others. Local to make; ranks use it together.

    kept: the shards of this rank that no other keeps.
    copies: rank -> its parts.  states: what the microbatches of these ranks and of its own carry, as ``pack`` has it.
    """

    def __init__(self, comm: Communicator, kept: list[Holding]):
        self.comm, self.partner = comm, partner_of(comm.rank, comm.machines)
        self.kept, self.parts = kept, [Part.of(each) for each in kept]
        self.wards = [rank for rank in range(comm.size)
                      if rank != comm.rank and partner_of(rank, comm.machines) == comm.rank]
        self.copies: dict[int, list[Part]] = {}
        self.states: list[Any] = []
        self.came: list[tuple] = []
        self.came_states: list[Any] = []

    def begin(self, carried: dict):
        """Copy all that there is; carried: as ``pack`` takes it. Collective; ``commit`` follows."""
        theirs = [json.loads(text) for text in self.comm.share_text(json.dumps([part.told() for part in self.parts]))]
        self.copies = {rank: [Part.made(told) for told in theirs[rank]] for rank in self.wards}
        self._send([None] * len(self.parts), carried, whole=True)

    def send(self, undo: Undo, carried: dict):
        """Copy what has changed since the last commit, as ``undo`` knows. Collective; ``commit`` follows."""
        self._send([undo.changed(kept.shard) if part.sparse else None for kept, part in zip(self.kept, self.parts)],
                   carried)

    def _send(self, changed, carried, whole: bool = False):
        """changed: the rows of each part, None: it is sent whole.  whole: all are, and new copies take them at once."""
        states = np.frombuffer(pack(carried), np.uint8)
        head = np.array([0 if ids is None else len(ids) for ids in changed] + [states.size], np.int64)
        heads = {rank: np.empty(len(parts) + 1, np.int64) for rank, parts in self.copies.items()}
        self._exchange([("control", "", head)], {rank: [("control", "", came)] for rank, came in heads.items()})
        leaving = [("control", "", states)]
        for part, ids in zip(self.parts, changed):
            arrays = part.arrays if ids is None else {s: take_rows(a, ids) for s, a in part.arrays.items()}
            leaving += _messages(part, ids, arrays)
        arriving, self.came, self.came_states = {}, [], [states]
        for rank, came in heads.items():
            self.came_states.append(np.empty(came[-1], np.uint8))
            arriving[rank] = [("control", "", self.came_states[-1])]
            for part, count in zip(self.copies[rank], came.tolist()):
                ids = np.empty(count, np.int64) if part.sparse and not whole else None
                arrays = part.arrays if whole else part.some(count)
                arriving[rank] += _messages(part, ids, arrays)
                if not whole:
                    self.came.append((part, ids, arrays))
        self._exchange(leaving, arriving)

    def commit(self):
        """Put into the copies what has come: all ranks are done with these steps. Local."""
        for part, ids, arrays in self.came:
            for slot, array in part.arrays.items():
                array[... if ids is None else ids] = arrays[slot]
        self.states, self.came = self.came_states, []

    def _exchange(self, leaving, arriving):
        """Send lists of (kind, variable, array) to the partner; receive rank -> such a list. Collective."""
        for kind in KINDS:
            sends = [(self.partner, *_flat(name, array)) for of, name, array in leaving if of == kind]
            receives = [(rank, *_flat(name, array)) for rank, messages in arriving.items()
                        for of, name, array in messages if of == kind]
            self.comm.exchange(sends if self.partner != self.comm.rank else [], receives, PHASE, kind)


def _messages(part, ids, arrays) -> list:
    """Return (kind, variable, array) of what travels of a part."""
    numbers = [] if ids is None else [("indices", part.name, ids)]
    return numbers + [("rows" if part.sparse else "dense", part.name, array) for array in arrays.values()]


def _flat(name, array):
    return array.reshape(-1), {name: array.size}


def pack(carried: dict[int, dict]) -> bytes:
    """Return the states of microbatches, V -> NAME -> array, as bytes. Local.

    Each microbatch has an entry "carry/V/", even if it carries nothing: so it can be seen that one is missing.
    """
    return save({f"carry/{v}/{name}": np.asarray(array, order="C") for v, state in carried.items()
                 for name, array in {"": np.empty(0), **state}.items()}) if carried else b""
