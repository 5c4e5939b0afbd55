"""Prove a schedule by running it on symbols: every rank must end with every contribution exactly once (DESIGN, I4)."""

from dataclasses import dataclass

from refimpl.collectives.schedule import Schedule
from refimpl.gradients import fold


class ScheduleError(ValueError):
    """A schedule does not compute the sum; the message names chunk, rank and round."""


@dataclass(frozen=True)
class Proof:
    """What was proved of a schedule.

    canonical: every chunk's expression is the microbatch tree.  rounds: how many exchange something.
    chunks_sent: for each rank.  bound: 2 (N - 1) / N * C, the fewest chunks that the busiest rank can send.
    """

    canonical: bool
    rounds: int
    chunks_sent: tuple[int, ...]
    bound: float


def _plus(left, right):
    """The expression left + right, the same object for right + left: IEEE addition is commutative, not associative."""
    return ("+", *sorted((left, right), key=repr))


def _contributions(expression) -> list:
    if expression[0] == "+":
        return _contributions(expression[1]) + _contributions(expression[2])
    return [expression]


def _execute(schedule: Schedule):
    """Return memory[rank][slot, chunk] -> expression after the last round."""
    memory = [{(slot, chunk): ("node", node) for slot, node in enumerate(nodes) for chunk in range(schedule.chunks)}
              for nodes in schedule.inputs]

    def read(rank, slot, chunk, number):
        if (slot, chunk) not in memory[rank]:
            raise ScheduleError(f"{schedule.name}: round {number}: rank {rank} reads slot {slot}, chunk {chunk}, "
                                f"which nothing has written yet")
        return memory[rank][slot, chunk]

    for number, step in enumerate(schedule.rounds):
        arrived = {}
        for t in step.transfers:
            for chunk in range(t.start, t.stop):
                place = (t.destination, t.target, chunk)
                if place in arrived:
                    raise ScheduleError(f"{schedule.name}: round {number}: two transfers write slot {t.target}, "
                                        f"chunk {chunk} of rank {t.destination}")
                arrived[place] = read(t.source, t.origin, chunk, number)
        for (rank, slot, chunk), expression in arrived.items():
            memory[rank][slot, chunk] = expression
        for s in step.sums:
            for chunk in range(s.start, s.stop):
                memory[s.rank][s.into, chunk] = _plus(read(s.rank, s.into, chunk, number),
                                                      read(s.rank, s.other, chunk, number))
    return memory


def prove(schedule: Schedule) -> Proof:
    """Return what holds of a schedule. Raises ScheduleError naming chunk and rank if it does not compute the sum. Local."""
    nodes = [node for nodes in schedule.inputs for node in nodes]
    expected = sorted(("node", node) for node in nodes)
    tree = fold([(node, ("node", node)) for node in nodes], _plus)
    canonical = True
    for rank, memory in enumerate(_execute(schedule)):
        for chunk in range(schedule.chunks if expected else 0):
            if (0, chunk) not in memory:
                raise ScheduleError(f"{schedule.name}: rank {rank} ends without chunk {chunk}")
            expression = memory[0, chunk]
            found = sorted(_contributions(expression))
            if found != expected:
                lost = [f"{c[1]}" for c in expected if c not in found]
                twice = sorted({f"{c[1]}" for c in found if found.count(c) > 1})
                raise ScheduleError(f"{schedule.name}: rank {rank} ends with a wrong chunk {chunk}: "
                                    f"lost {lost or 'nothing'}, more than once {twice or 'nothing'}")
            canonical = canonical and expression == tree
    sent = schedule.elements_sent(schedule.chunks)
    rounds = sum(bool(step.transfers) for step in schedule.rounds)
    return Proof(canonical, rounds, tuple(sent), 2 * (schedule.ranks - 1) / schedule.ranks * schedule.chunks)
