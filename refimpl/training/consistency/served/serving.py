"""A rank without barriers: an owner and a worker, each of which acts when a message (a letter) arrives.

    worker ── PULL ──▶ owners ── ANSWER, in the order of ``order`` ──▶ worker computes ── PUSH ──▶ owners

Messages between two ranks arrive in the order in which they were sent. So a worker's push arrives before its next pull.
Nothing here waits, or knows how messages travel: see ``without_barriers`` and ``replay``. The plain version:
``refimpl.plain.without_barriers.async_server``.
"""

from typing import NamedTuple

import numpy as np

from refimpl.plain.without_barriers.consistencies import Backup
from refimpl.training.consistency.served.mail import ANSWER, PULL, Mail
from refimpl.training.consistency.served.owner import Owner
from refimpl.training.consistency.served.worker import AsyncWorker
from refimpl.transport.ledger import Ledger
from refimpl.transport.letters import Letter


class Came(NamedTuple):
    """Messages that arrived and are not handled yet, oldest first. pulls, pushes: {worker: message}."""

    pulls: dict
    pushes: dict


class FirstCome:
    """The order of arrival: a push is handled when it arrives, a pull as soon as the consistency allows."""

    def next(self, owner, came: Came) -> tuple[dict, int] | None:
        """Return (kind of message, worker) to handle next, from ``came``; None if nothing can be handled. Local."""
        for worker in came.pushes:
            return came.pushes, worker
        for worker in came.pulls:
            if owner.answers(worker):
                return came.pulls, worker
        return None


class Recorded:
    """The order of an event log: its next entry is waited for. entries: workers' numbers."""

    def __init__(self, entries):
        self.entries = entries

    def next(self, owner, came: Came) -> tuple[dict, int] | None:
        """Return (kind of message, worker) to handle next, from ``came``; None if it has not come yet. Local."""
        at = len(owner.record)
        if at == len(self.entries):
            return None
        worker = int(self.entries[at])
        which = came.pushes if worker in owner.pulled else came.pulls
        return (which, worker) if worker in which else None


class Serving:
    """An owner and a worker of the same number. Local.

    letters, ledger, machine: see ``Mail``.  order: ``FirstCome`` or ``Recorded``.
    over: whether the worker was told that the training is over.  overs: owner -> whether it said so in this step.
    asked: whether the worker has pulled for its current step, and not pushed yet.
    """

    def __init__(self, owner: Owner, worker: AsyncWorker, letters, order, ledger: Ledger, machine=()):
        self.owner, self.worker, self.order = owner, worker, order
        self.mail = Mail(letters, ledger, worker.number, machine, worker.sparse)
        self.came, self.asked, self.over = Came({}, {}), False, False
        self.overs: dict[int, bool] = {}

    # -- the worker

    def pull(self, answered: dict[int, tuple[bool, dict]] | None = None):
        """Begin the worker's next step: pull the values that it needs from all owners.

        answered: owner -> (over, values) of owners that have answered before; they are not asked again.
        """
        self.worker.begin()
        self.overs, self.asked = {}, True
        for owner, (over, values) in (answered or {}).items():
            self._heard(owner, over, values)
        for owner in sorted(set(range(self.worker.plan.ranks)) - set(self.overs)):
            nothing = {v.name: np.empty(0, np.int64) for v in self.worker.sparse}
            self.mail.ask(owner, nothing if self._is_last else self.worker.asks(owner))

    @property
    def ready(self) -> bool:
        """Whether the worker has all values of its step and can compute."""
        return self.worker.complete and not self.over

    def push(self):
        """Send each owner its part of the worker's gradients."""
        self.asked = False
        for owner in range(self.worker.plan.ranks):
            self.mail.push(owner, self.worker.push(owner))

    # -- letters

    def receive(self, word: int, letter: Letter):
        """Take a message with the first number ``word``; do all that can be done now."""
        if word == ANSWER:
            asked = None if self._is_last else self.worker.asks(letter.sender)
            self._heard(letter.sender, *self.mail.read_answer(letter, asked, self.worker.dense[letter.sender]))
        elif word == PULL:
            self.came.pulls[letter.sender] = self.mail.read_pull(letter)
        else:
            self.came.pushes[letter.sender] = self.mail.read_push(letter, self.worker.dense[self.worker.number])
        while (due := self.order.next(self.owner, self.came)) is not None:
            what, worker = due
            if what is self.came.pulls:
                self._answer(worker, self.came.pulls.pop(worker))
            else:
                self.owner.push(worker, self.came.pushes.pop(worker))

    def _answer(self, worker, numbers):
        over = self.owner.over(worker)
        values = self.owner.pull(worker, numbers)
        self.mail.answer(worker, over, {} if over and self._knows_its_end else values)

    def _heard(self, owner, over, values):
        self.overs[owner] = over
        self.worker.take(owner, values)
        self.over = self.worker.complete and all(self.overs.values())

    @property
    def _knows_its_end(self) -> bool:
        """Whether a worker knows the number of its steps. Then its last pull asks for no values."""
        return not isinstance(self.owner.consistency, Backup)

    @property
    def _is_last(self) -> bool:
        """Whether the worker pulls only to be told that the training is over."""
        return self._knows_its_end and self.worker.clock >= self.worker.options.steps
