"""What one variable puts on the network in a step, round by round: the exact bytes of its strategy for a sample's rows.

A round is what must be over before the next begins: the control messages, row numbers or rows of one phase. Its bytes
are those of ``Strategy.bytes_between``, which the ledger of such a step would show; means over the sampled steps. What
is summed by allreduce is not here: its schedule is simulated (predict.py).
"""

from dataclasses import dataclass

import numpy as np

from refimpl.plan.parts import cut_lists
from refimpl.plan.sample import Sample


@dataclass(frozen=True, eq=False)
class Traffic:
    """Bytes and messages of a step, by round: (phase, kind). Adds up over variables that travel together, but for
    messages: small arrays of a pair are one (transport/packed.py), and of large ones the bytes count. Local.

    sent, received: round -> (M,) bytes that leave and enter each machine's card.  within: round -> (M,) bytes between
    ranks of a machine.  messages: round -> (N,) that each rank sends or is sent.  work: (N,) bytes that each rank adds
    up or updates.
    """

    sent: dict[tuple[str, str], np.ndarray]
    received: dict[tuple[str, str], np.ndarray]
    within: dict[tuple[str, str], np.ndarray]
    messages: dict[tuple[str, str], np.ndarray]
    work: np.ndarray

    def __add__(self, other: "Traffic") -> "Traffic":
        columns = zip((self.sent, self.received, self.within), (other.sent, other.received, other.within))
        messages = {name: np.maximum(self.messages.get(name, 0), other.messages.get(name, 0))
                    for name in {**self.messages, **other.messages}}
        return Traffic(*({name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}
                         for left, right in columns), messages, self.work + other.work)

    def through_cards(self, control: bool = True) -> np.ndarray:
        """Return (M,) bytes through each machine's card, in and out. control: False leaves out control messages."""
        return self._total((self.sent, self.received), control)

    def inside_machines(self) -> np.ndarray:
        """Return (M,) bytes between ranks of each machine."""
        return self._total((self.within,), True)

    @staticmethod
    def _total(parts, control):
        columns = [column for part in parts for (_, kind), column in part.items() if control or kind != "control"]
        return np.sum([*columns, np.zeros(1)], axis=0) if not columns else np.sum(columns, axis=0)


def traffic_of(variable, strategy, plan, sample: Sample) -> Traffic:
    """Return what a variable costs that goes as messages. plan: whose ranks and machines share the work. Local."""
    steps = len(sample.steps) if variable.sparse and sample.steps else 1
    rounds: dict[tuple[str, str], np.ndarray] = {}
    for i in range(steps):
        def touched(part, i=i):
            return (cut_lists(part, sample.pulled(i, part.name, plan.ranks)),
                    [cut_lists(part, own) for own in sample.pushed(i, part.name, plan.ranks)])

        for (phase, _, kind), matrix in strategy.bytes_between([(variable, strategy)], plan, touched).items():
            if matrix.any():
                rounds[phase, kind] = rounds.get((phase, kind), 0) + matrix / steps
    work = _merged(rounds, plan.ranks) + strategy.work(variable, plan, sample)
    return _add_up(rounds, plan.on_machines, plan.ranks, work, strategy.message_rounds(variable, plan.ranks))


def _merged(rounds, ranks):
    """(N,) bytes of gradients that come to each rank, to be added up there."""
    work = np.zeros(ranks)
    for (phase, kind), matrix in rounds.items():
        if phase in ("aggregate", "push", "allgather") and kind in ("rows", "dense"):
            work += matrix.sum(axis=0)
    return work


def _add_up(rounds, machines, ranks, work, row_rounds) -> Traffic:
    """Return the traffic of matrices of bytes from rank to rank."""
    machine = np.empty(ranks, np.int64)
    for index, members in enumerate(machines):
        machine[list(members)] = index
    crosses, count = machine[:, None] != machine, len(machines)
    sent, received, within, messages = {}, {}, {}, {}
    for name, matrix in rounds.items():
        over, inside = np.where(crosses, matrix, 0), np.where(crosses, 0, matrix)
        sent[name] = np.bincount(machine, over.sum(axis=1), count)
        received[name] = np.bincount(machine, over.sum(axis=0), count)
        within[name] = np.bincount(machine, inside.sum(axis=1), count)
        times = row_rounds if name[1] == "rows" else 1
        messages[name] = times * ((matrix > 0).sum(axis=0) + (matrix > 0).sum(axis=1))
    return Traffic(sent, received, within, messages, work)
