"""Copies on a partner of what one rank alone keeps: rows with their optimizer state, dense pieces, microbatch states.

    at first    rank --- everything that it alone keeps, whole ---> partner
    each step   rank --- the number of rows of each part that it has updated ---> partner           8 (parts + 1) bytes
                rank --- their row numbers and summed gradients ---> partner                        k (8 + w) bytes
    in the last of K steps also dense pieces with their optimizer state, and the states of microbatches
    all ranks agree that the K steps are done; then the partner does the same updates on its copies

So w bytes are sent for a row, although the optimizer has changed w (1 + slots). The partner's copies stay as they were
at the last commit until all ranks agree on the next one.

A step's gradients are sent while the next step computes (``post``), when the network is idle. Those of the last of K
steps are sent at once, and all messages are waited for (``send``). With overlap another thread uses the communicator
while a rank computes; then everything is sent in the last step. Bytes are counted in the phase "backup".
"""

import json
from typing import Any, Callable, NamedTuple

import numpy as np
from safetensors.numpy import save

from refimpl.server import Holding, ReducedGradient, Shard
from refimpl.training.survival.decisions import partner_of, ranges_told
from refimpl.transport import Communicator

PHASE = "backup"
KINDS = ("control", "indices", "rows", "dense")
COUNTS, CONTENTS = 1 << 13, (1 << 13) + 1
"""Tags of messages that are under way while other messages are matched."""
_NOTHING = np.empty(0, np.uint8)


class Part(NamedTuple):
    """Some rows of a variable.

    rows: ranges of row numbers; None: the whole variable.  arrays: slot (None: values) -> array of these rows in order.
    """

    name: str
    rows: list[range] | None
    sparse: bool
    arrays: dict[str | None, Any]

    @classmethod
    def of(cls, kept: Holding) -> "Part":
        """Return the part in a shard. Local."""
        return cls(kept.shard.variable.name, kept.rows, kept.shard.variable.sparse, kept.shard.arrays)

    def told(self) -> list:
        """Return the description with which another rank allocates a copy: JSON. Local."""
        return [self.name, ranges_told(self.rows), self.sparse,
                [[slot, array.shape, array.dtype.str] for slot, array in self.arrays.items()]]

    @classmethod
    def made(cls, told: list) -> "Part":
        """Return a part with uninitialised arrays from the description of ``told``. Local."""
        name, rows, sparse, arrays = told
        return cls(name, None if rows is None else [range(*r) for r in rows], sparse,
                   {slot: np.empty(shape, dtype) for slot, shape, dtype in arrays})

    def shard(self, variable) -> Shard:
        """Return the part as a shard of ``variable``, for an update. Local."""
        return Shard(variable, self.arrays[None], {slot: array for slot, array in self.arrays.items() if slot})


class Backups:
    """What partners keep for this rank, and the copies that it keeps for others. The constructor is local.

    kept: the shards that this rank alone keeps.  variables: of the model.  redo: repeats a noted update on copies
    (``Synchronous.redo``).
    copies: rank -> its parts.  states: the states of its own and of these ranks' microbatches, of ``pack``.
    """

    def __init__(self, comm: Communicator, kept: list[Holding], variables, redo: Callable):
        self.comm, self.partner, self.redo = comm, partner_of(comm.rank, comm.machines), redo
        self.kept, self.parts = kept, [Part.of(each) for each in kept]
        self.variables = {v.name: v for v in variables}
        self.wards = [rank for rank in range(comm.size)
                      if rank != comm.rank and partner_of(rank, comm.machines) == comm.rank]
        self.copies: dict[int, list[Part]] = {}
        self.states: list[Any] = []
        self._clear()

    def _clear(self):
        self.updates: list[tuple] = []  # (number, scale, norms) of each step since the last commit
        self.log: list[list] = []  # of each step not sent yet: (row numbers, gradients) of each sparse part
        self.counting: list[tuple] = []  # of each step of which only the counts are under way
        self.came: list[dict] = []  # of each other step: rank -> what it sends of its parts
        self.under_way: list = []
        self.came_states: list[Any] = []

    def begin(self, carried: dict):
        """Copy everything. carried: as of ``pack``. Collective; ``commit`` follows."""
        states = pack(carried)
        told = self.comm.share_text(json.dumps([states.size, [part.told() for part in self.parts]]))
        theirs = {rank: json.loads(told[rank]) for rank in self.wards}
        self.copies = {rank: [Part.made(part) for part in parts] for rank, (_, parts) in theirs.items()}
        self.came_states = [states] + [np.empty(size, np.uint8) for size, _ in theirs.values()]
        self._start(_of_states(states) + _of_whole(self.parts), {
            rank: _of_states(box) + _of_whole(self.copies[rank])
            for rank, box in zip(self.wards, self.came_states[1:])})
        self._wait()

    def note(self, number: int, reduced: list[ReducedGradient], scale: float, norms: dict):
        """Keep the gradients of an update until they are sent. Local."""
        self.updates.append((number, scale, norms))
        found = {id(kept.shard): [(np.empty(0, np.int64), kept.shard.values[:0])] for kept in self.kept
                 if kept.shard.variable.sparse}
        for piece in reduced:
            if id(piece.shard) in found:
                found[id(piece.shard)].append((piece.ids, piece.gradient))
        self.log.append([tuple(map(np.concatenate, zip(*some))) for some in found.values()])

    def post(self, last=_NOTHING, whole=()):
        """Begin to send the noted updates, and receive those of others; do not wait for what is sent. Collective.

        last: the states, with the last step before a commit.  whole: parts that are sent whole with it.
        """
        self._take_counts()
        sparse = [part for part in self.parts if part.sparse]
        for step in self.log:
            states, dense = (last, whole) if step is self.log[-1] else (_NOTHING, ())
            counts = np.array([*(len(ids) for ids, _ in step), states.size], np.int64)
            boxes = {rank: np.empty(sum(part.sparse for part in parts) + 1, np.int64)
                     for rank, parts in self.copies.items()}
            pending = self._start([("control", "", counts)], {r: [("control", "", box)] for r, box in boxes.items()},
                                  COUNTS)
            self.counting.append((pending, boxes))
            self._start(_of_states(states) + _of_rows(sparse, step) + _of_whole(dense), {})
        self.log = []

    def send(self, carried: dict):
        """Send all noted updates and receive those of others; wait for all of it. Collective; ``commit`` follows."""
        self.came_states = [pack(carried)]
        self.post(self.came_states[0], [part for part in self.parts if not part.sparse])
        self._take_counts(last=True)
        self._wait()

    def _take_counts(self, last: bool = False):
        """Begin to receive as many rows as others have announced. last: the last step has further contents."""
        for place, (pending, boxes) in enumerate(self.counting, 1):
            for each in pending:
                each.wait()
            ends, arriving, came = last and place == len(self.counting), {}, {}
            for rank, (*counts, size) in ((rank, box.tolist()) for rank, box in boxes.items()):
                sparse, dense = ([p for p in self.copies[rank] if p.sparse == wanted] for wanted in (True, False))
                rows = [(np.empty(k, np.int64), np.empty((k, *part.arrays[None].shape[1:]), part.arrays[None].dtype))
                        for part, k in zip(sparse, counts)]
                whole = [part._replace(arrays={s: np.empty_like(a) for s, a in part.arrays.items()})
                         for part in dense] if ends else []
                states = np.empty(size, np.uint8)
                if ends:
                    self.came_states.append(states)
                came[rank] = sparse, rows, dense, whole
                arriving[rank] = _of_states(states) + _of_rows(sparse, rows) + _of_whole(whole)
            self.came.append(came)
            self._start([], arriving)
        self.counting = []

    def commit(self):
        """Apply the received updates to the copies, because all ranks have done these steps. Local."""
        for update, came in zip(self.updates, self.came):
            number, scale, norms = update
            self.redo(number, [ReducedGradient(part.shard(self.variables[part.name]), *rows, False)
                               for sparse, rows_of_each, *_ in came.values()
                               for part, rows in zip(sparse, rows_of_each)], scale, norms)
            for *_, dense, whole in came.values():
                for part, new in zip(dense, whole):
                    for slot, array in part.arrays.items():
                        array[...] = new.arrays[slot]
        states = self.came_states
        self._clear()
        self.states = states

    def _start(self, leaving, arriving, tag: int = CONTENTS) -> list:
        """Begin to send a list of (kind, variable, array) to the partner, and to receive rank -> such a list."""
        started = []
        for kind in KINDS:
            sends = [(self.partner, *_flat(name, array)) for of, name, array in leaving if of == kind]
            receives = [(rank, *_flat(name, array)) for rank, messages in arriving.items()
                        for of, name, array in messages if of == kind]
            started.append(self.comm.start(sends if self.partner != self.comm.rank else [], receives, PHASE, kind,
                                           tag=tag))
        self.under_way += started
        return started

    def _wait(self):
        for pending in self.under_way:
            pending.wait()
        self.under_way = []


def _of_states(states) -> list:
    return [("control", "", states)]


def _of_rows(parts, rows) -> list:
    """Return (kind, variable, array) of each message with rows of these parts."""
    return [message for part, (ids, gradients) in zip(parts, rows)
            for message in (("indices", part.name, ids), ("rows", part.name, gradients))]


def _of_whole(parts) -> list:
    return [("rows" if part.sparse else "dense", part.name, array) for part in parts for array in part.arrays.values()]


def _flat(name, array):
    return array.reshape(-1), {name: array.size}


def pack(carried: dict[int, dict]) -> np.ndarray:
    """Return the states of microbatches, V -> NAME -> array, as (k,) uint8. Local.

    Each microbatch has an entry "carry/V/", even without state, so that a missing one is noticed.
    """
    return np.frombuffer(save({f"carry/{v}/{name}": np.asarray(array, order="C") for v, state in carried.items()
                               for name, array in {"": np.empty(0), **state}.items()}) if carried else b"", np.uint8)
