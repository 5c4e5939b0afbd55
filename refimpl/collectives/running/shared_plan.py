"""A schedule on ranks that share memory: the sums that a rank forms in memory, and the remaining messages.

A transfer between two ranks of a machine becomes a read of the sender's memory. So the rounds before the first message
between machines become one expression of the machine's inputs for each chunk that a rank must form. It is found by
running the rounds with symbols, as ``prove`` does. The rounds between machines stay. The rounds that copy sums within a
machine are left out, because all its ranks read one copy.
"""

from typing import NamedTuple

from refimpl.collectives.schedule import Round, Schedule
from refimpl.transport.machines import Machines, machine_of


class RankSums(NamedTuple):
    """The sums of one rank: chunks [start, stop) of the inputs, in the order of ``sums``.

    inputs: (rank, slot) of each register.  sums: (into, other) registers.  outputs: (register, slot): where sums are
    written. Slot 0 is the machine's one copy of the result, further slots are the rank's own.
    """

    start: int
    stop: int
    inputs: tuple[tuple[int, int], ...] = ()
    sums: tuple[tuple[int, int], ...] = ()
    outputs: tuple[tuple[int, int], ...] = ()


class SharedPlan(NamedTuple):
    """The parts of a schedule: the ``share`` that a rank sums in shared memory, and the rounds ``across`` machines."""

    share: RankSums
    across: tuple[Round, ...]


def plan_of(schedule: Schedule, machines: Machines, rank: int) -> SharedPlan:
    """Return the part of ``rank`` in a proved allreduce ``schedule`` on ``machines``. Local.

    Raises ValueError unless the schedule goes within machines, across, within, and each rank forms one sum.
    """
    inside, across = _split(schedule, machines)
    members = machines[machine_of(machines, rank)]
    memory = {(r, slot, chunk): (r, slot) for r in members for slot in range(len(schedule.inputs[r]))
              for chunk in range(schedule.chunks)}
    formed = _run(inside, members, memory)
    if across:
        wanted = [place for place in _read_first(across, rank) if place in memory]
    else:
        chunks = schedule.chunks
        owners = [formed.get(chunk, members[chunk * len(members) // chunks]) for chunk in range(chunks)]
        everything = {memory[owner, 0, chunk] for chunk, owner in enumerate(owners) if (owner, 0, chunk) in memory}
        if len(everything) > 1:
            raise _unfit(schedule, "adds up different chunks in different orders")
        wanted = [(rank, 0, chunk) for chunk in range(chunks) if owners[chunk] == rank and (rank, 0, chunk) in memory]
    return SharedPlan(_share_of(schedule, wanted, memory), across)


def _split(schedule, machines):
    """Return (rounds within machines before any message, rounds of messages between machines)."""
    of = {rank: index for index, ranks in enumerate(machines) for rank in ranks}
    inside, across, after = [], [], False
    for step in schedule.rounds:
        crossing = {of[t.source] != of[t.destination] for t in step.transfers}
        if len(crossing) > 1 or (after and step.sums and crossing != {True}):
            raise _unfit(schedule, "mixes transfers within and across machines")
        if crossing == {True}:
            if after:
                raise _unfit(schedule, "goes across machines, within and across again")
            across.append(step)
        elif across:
            after = True
        else:
            inside.append(step)
    return inside, tuple(across)


def _unfit(schedule, how):
    return ValueError(f"{schedule.name} {how}: through shared memory use direct on one machine, "
                      "hierarchical on several")


def _run(rounds, members, memory):
    """Run rounds with symbols; return chunk -> the rank that summed it.

    memory[rank, slot, chunk]: (rank, slot) of an input, or a pair of two sums.
    """
    formed = {}
    for step in rounds:
        moving = [((t.destination, t.target, chunk), memory[t.source, t.origin, chunk])
                  for t in step.transfers if t.source in members for chunk in range(t.start, t.stop)]
        memory.update(moving)
        for s in step.sums:
            if s.rank in members:
                for chunk in range(s.start, s.stop):
                    left, right = memory[s.rank, s.into, chunk], memory[s.rank, s.other, chunk]
                    memory[s.rank, s.into, chunk] = (left, right) if _first(left) < _first(right) else (right, left)
                    if s.into == 0:
                        formed[chunk] = s.rank
    return formed


def _first(expression):
    """Return the first input in an expression. It orders a + b and b + a alike, which have the same bits."""
    while isinstance(expression[0], tuple):
        expression = expression[0]
    return expression


def _read_first(rounds, rank):
    """Return the (rank, slot, chunk) of a rank that rounds read before they write it."""
    read, written = {}, set()
    for step in rounds:
        for t in step.transfers:
            if t.source == rank:
                read.update(((rank, t.origin, c), None) for c in range(t.start, t.stop) if (t.origin, c) not in written)
        written |= {(t.target, c) for t in step.transfers if t.destination == rank for c in range(t.start, t.stop)}
        for s in step.sums:
            if s.rank == rank:
                for slot in (s.into, s.other):
                    read.update(((rank, slot, c), None) for c in range(s.start, s.stop) if (slot, c) not in written)
    return list(read)


def _share_of(schedule, wanted, memory):
    """Return the one share that forms all wanted (rank, slot, chunk)."""
    chunks: dict[int, dict] = {}
    for rank, slot, chunk in wanted:
        chunks.setdefault(chunk, {})[slot] = memory[rank, slot, chunk]
    if not chunks:
        return RankSums(0, 0)
    start, stop = min(chunks), max(chunks) + 1
    expressions = chunks[start]
    if len(chunks) != stop - start or any(other != expressions for other in chunks.values()):
        raise _unfit(schedule, "adds up different sums in different chunks of one rank")
    inputs, sums = [], []

    def form(expression):
        left, right = expression
        if not isinstance(left, tuple):
            inputs.append(expression)
            return len(inputs) - 1
        into, other = form(left), form(right)
        sums.append((into, other))
        return into

    outputs = tuple((form(expression), slot) for slot, expression in sorted(expressions.items()))
    return RankSums(start, stop, tuple(inputs), tuple(sums), outputs)
