"""A rank without barriers: an owner and a worker, each of which goes on whenever a letter lets it.

    worker -> owners   PULL   |rows of each sparse variable|row numbers ...|
    owner -> worker    ANSWER |over|rows ...|dense variables ...|              when the order says so
    worker -> owners   PUSH   |rows of each sparse variable|row numbers ...|rows ...|dense gradients ...|

Letters of two ranks keep their order: so a worker's push is there before its next pull, and each is taken once. Nothing
here waits, or knows how letters travel: see ``without_barriers`` and ``replay``. Plainly: ``refimpl.plain.async_server``.
"""

import numpy as np

from kernels import RowGradient
from refimpl.plain.consistencies import Backup
from refimpl.training.consistency.orders import PULL, Came
from refimpl.training.consistency.owner import Owner
from refimpl.training.consistency.worker import Worker
from refimpl.transport.ledger import Ledger

WORDS = {"pull": 0, "answer": 1, "push": 2}
INDEX = 8  # bytes of a number


class Serving:
    """An owner and a worker of the same number. Local.

    letters: send(rank, *arrays).  order: see ``orders``.  ledger: counts what goes to, and comes from, other ranks.
    machine: the ranks that share this one's.  over: whether the worker has heard that the training is over.
    asked: whether the worker has pulled for its step at hand, and not pushed yet.
    """

    def __init__(self, owner: Owner, worker: Worker, letters, order, ledger: Ledger, machine=()):
        self.owner, self.worker, self.letters, self.order = owner, worker, letters, order
        self.ledger, self.machine, self.over = ledger, machine, False
        self.came, self.asked = Came({}, {}), False
        self.overs: dict[int, bool] = {}

    # -- the worker

    def pull(self, answered: dict[int, tuple[bool, list]] | None = None):
        """Begin the worker's next step: ask all owners for the values that it needs.

        answered: owner -> (over, values), of those who have answered before: they are not asked again.
        """
        self.worker.begin()
        self.overs, self.asked = {}, True
        for owner, (over, values) in (answered or {}).items():
            self._heard(owner, over, values)
        for owner in sorted(set(range(self.worker.plan.ranks)) - set(answered or ())):
            numbers = {} if self._is_last else self.worker.asks(owner)
            lists = [numbers.get(v.name, np.empty(0, np.int64)) for v in self.worker.sparse]
            self._send(owner, "pull", np.array([len(ids) for ids in lists], np.int64), *lists)
            self._count("sent", owner, "pull", "indices", {v.name: len(ids) for v, ids in zip(self.worker.sparse, lists)})

    @property
    def ready(self) -> bool:
        """Whether the worker has all values of its step, and can compute."""
        return self.worker.complete and not self.over

    def push(self):
        """Send all owners what the worker has computed."""
        self.asked = False
        for owner in range(self.worker.plan.ranks):
            parts = self.worker.push(owner)
            lists = [ids for _, ids, _ in parts if ids is not None]
            self._send(owner, "push", np.array([len(ids) for ids in lists], np.int64), *lists,
                       *(values for _, _, values in parts))
            for name, ids, values in parts:
                self._count_values("sent", owner, "push", name, ids, values)

    # -- letters

    def receive(self, word: int, letter):
        """Take a letter, whose first number is ``word``; do all that can be done now."""
        if word == WORDS["answer"]:
            self._answered(letter)
        else:
            lengths = letter.next(np.int64, (len(self.worker.sparse),))
            numbers = {v.name: letter.next(np.int64, (int(n),)) for v, n in zip(self.worker.sparse, lengths)}
            if word == WORDS["pull"]:
                self.came.pulls[letter.sender] = numbers
                self._control("received", letter.sender, "pull", 1 + len(numbers))
                self._count("received", letter.sender, "pull", "indices",
                            {name: len(ids) for name, ids in numbers.items()})
            else:
                self.came.pushes[letter.sender] = self._pushed(letter, numbers)
        self.deal()

    def deal(self):
        """Answer and apply what has come, as far as the order lets it."""
        while (due := self.order.next(self.owner, self.came)) is not None:
            what, worker = due
            if what == PULL:
                self._answer(worker, self.came.pulls.pop(worker))
            else:
                self.owner.push(worker, self.came.pushes.pop(worker))

    def _answer(self, worker, numbers):
        over = self.owner.over(worker)
        values = self.owner.pull(worker, numbers)
        if over and not isinstance(self.owner.consistency, Backup):
            values = {}  # who knows how many steps it does has asked for none
        self._send(worker, "answer", np.array([over], np.int64), *values.values())
        for name, array in values.items():
            self._count_values("sent", worker, "pull", name, None, array)

    def _answered(self, letter):
        owner, over = letter.sender, bool(letter.next(np.int64))
        values = []
        if not self._is_last:
            asked = self.worker.asks(owner)
            for v in self.worker.sparse:
                values.append(letter.next(v.dtype, (len(asked[v.name]), v.shape[1])))
            values += [letter.next(v.dtype, v.shape) for v in self.worker.dense[owner]]
        self._control("received", owner, "pull", 2)
        for v, array in zip([*self.worker.sparse, *self.worker.dense[owner]], values):
            self._count_values("received", owner, "pull", v.name, None, array)
        self._heard(owner, over, values)

    def _heard(self, owner, over, values):
        self.overs[owner] = over
        self.worker.take(owner, values)
        self.over = self.worker.complete and all(self.overs.values())

    def _pushed(self, letter, numbers):
        """Return name -> gradient of a push."""
        gradients = {v.name: RowGradient(numbers[v.name], letter.next(v.dtype, (len(numbers[v.name]), v.shape[1])))
                     for v in self.worker.sparse}
        gradients |= {v.name: letter.next(v.dtype, v.shape) for v in self.worker.dense[self.owner_number]}
        self._control("received", letter.sender, "push", 1 + len(numbers))
        for name, gradient in gradients.items():
            rows = isinstance(gradient, RowGradient)
            self._count_values("received", letter.sender, "push", name, gradient.ids if rows else None,
                               gradient.rows if rows else gradient)
        return gradients

    @property
    def owner_number(self) -> int:
        """The rank whose owner and worker these are."""
        return self.worker.number

    @property
    def _is_last(self) -> bool:
        """Whether the worker's step is not to be done, as it knows by itself: it pulls to hear that it is over."""
        return self.worker.clock >= self.worker.options.steps and not isinstance(self.owner.consistency, Backup)

    # -- bytes

    def _send(self, rank, word, head, *arrays):
        self.letters.send(rank, np.array([WORDS[word], *head], np.int64), *arrays)
        self._control("sent", rank, "push" if word == "push" else "pull", 1 + len(head))

    def _control(self, direction, rank, phase, numbers):
        self._count(direction, rank, phase, "control", {"": numbers})

    def _count_values(self, direction, rank, phase, name, ids, values):
        if ids is not None:
            self._count(direction, rank, phase, "indices", {name: len(ids)})
        sparse = name in self.worker.partitionings
        self._count(direction, rank, phase, "rows" if sparse else "dense", {name: values.size}, values.itemsize)

    def _count(self, direction, rank, phase, kind, elements, itemsize=INDEX):
        if rank != self.owner_number:
            self.ledger.count(direction, rank not in self.machine, phase, elements, kind, itemsize)
