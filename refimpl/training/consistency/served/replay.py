"""Equals plain/without_barriers/replay.py: repeats a training by its event logs, on this rank alone."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from refimpl.plan.plan import Plan
from refimpl.training.consistency.served.owner import Owner
from refimpl.training.consistency.served.record import Record
from refimpl.training.consistency.served.serving import Recorded, Serving
from refimpl.training.consistency.served.without_barriers import shards_of
from refimpl.training.consistency.served.worker import AsyncWorker
from refimpl.training.parameters import Parameters
from refimpl.transport.ledger import Ledger
from refimpl.transport.letters import Letter, enclosed


@dataclass
class Seat:
    """The place of one rank of the training: number ``rank`` of ``size``. Its messages go to the other seats."""

    rank: int
    size: int
    boxes: list[deque]
    ledger: Ledger = field(default_factory=Ledger)

    def send(self, rank: int, *arrays):
        """Put a message into another seat's mailbox."""
        self.boxes[rank].append(Letter(self.rank, enclosed(arrays)))


def replay_alone(model, data, options, plan: Plan, record: Record) -> dict:
    """Return (variable, slot or None) -> whole array of the state with which the training ended. Local.

    options, plan: of the training.  record: checked by ``check_possible``.
    """
    boxes: list[deque] = [deque() for _ in range(plan.ranks)]
    kept, ranks = [], []
    for number in range(plan.ranks):
        seat = Seat(number, plan.ranks, boxes)
        kept.append(shards_of(Parameters(model.variables, plan, seat, options.seed, options.optimizer)))
        owner, worker = Owner(kept[-1], plan.ranks, options), AsyncWorker(model, data, options, plan, number)
        ranks.append(Serving(owner, worker, seat, Recorded(record.entries[number]), seat.ledger))
    for rank in ranks:
        rank.pull()
    while any(boxes) or any(rank.ready for rank in ranks):
        for rank, box in zip(ranks, boxes):
            while box:
                letter = box.popleft()
                rank.receive(int(letter.next(np.int64)), letter)
            if rank.ready:
                rank.worker.compute()
                rank.push()
                rank.pull()
    return _whole(model.variables, plan, kept)


def _whole(variables, plan, kept) -> dict:
    """Return whole arrays from the parts of all seats."""
    found = {}
    for v in variables:
        owner = plan.strategies[v.name].owners[0]
        for slot in (None, *kept[owner][v.name].state):
            if not v.sparse:
                found[v.name, slot] = kept[owner][v.name].array(slot)
                continue
            whole = found[v.name, slot] = np.empty(v.shape, v.dtype)
            for rank, shards in enumerate(kept):
                whole[plan.partitioning(v).global_rows(rank)] = shards[v.name].array(slot)
    return found
