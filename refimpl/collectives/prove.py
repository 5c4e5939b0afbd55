"""Prove a schedule with symbols: every rank must end with every contribution exactly once (docs/design.md, I4)."""

from collections import Counter
from dataclasses import dataclass

from refimpl.collectives.schedule import Schedule
from refimpl.gradients import fold


_PROOF = "_proof"  # no field: a copy with other rounds (dataclasses.replace) has none


class ScheduleError(ValueError):
    """A schedule does not compute the sum. The message names chunk, rank and round."""


@dataclass(frozen=True)
class Proof:
    """The proved properties of a schedule. The whole vector has ``chunks`` chunks.

    canonical: whether every sum is a node of the microbatch tree.  rounds: those in which something is sent.
    chunks_sent, chunks_received, chunks_added: by each rank.  bound: the fewest chunks that the busiest rank can send:
    2 (N - 1) / N * C; for a half (N - 1) / N * C.  busiest_link: (source, destination, chunks) of the two ranks with
    the most chunks between them; None if nothing is sent.  ports: the most messages that a rank sends or receives in a
    round.
    depth: the most additions that a contribution passes through: the rounding error is at most gamma_depth Σ|x|.
    """

    canonical: bool
    rounds: int
    chunks_sent: tuple[int, ...]
    bound: float
    chunks: int = 1
    chunks_received: tuple[int, ...] = ()
    chunks_added: tuple[int, ...] = ()
    busiest_link: tuple[int, int, int] | None = None
    ports: int = 0
    depth: int = 0


class Expressions:
    """Sums as numbers. Equal numbers are equal expressions: a + b is b + a, but (a + b) + c is not a + (b + c).

    ``contains[e]``: the contributions in expression e, as bits of an integer; ``depth[e]``: its most additions.
    """

    def __init__(self, contributions):
        self.names = [str(c) for c in contributions]
        self.contains = [1 << i for i in range(len(self.names))]
        self.depth = [0] * len(self.names)
        self.sums: dict[tuple[int, int], int] = {}

    def plus(self, left: int, right: int) -> int:
        """Return the number of left + right. A contribution in both is counted once (see ``common``)."""
        pair = (left, right) if left < right else (right, left)
        if pair not in self.sums:
            self.sums[pair] = len(self.contains)
            self.contains.append(self.contains[left] | self.contains[right])
            self.depth.append(1 + max(self.depth[left], self.depth[right]))
        return self.sums[pair]

    def common(self, left: int, right: int) -> str:
        """Return the names of the contributions in both; "" if there are none."""
        both = self.contains[left] & self.contains[right]
        return self.named(both) if both else ""  # every sum asks this, so names are looked up only for an error

    def named(self, bits: int) -> str:
        """Return the names of the contributions in ``bits``."""
        return ", ".join(name for i, name in enumerate(self.names) if bits >> i & 1)


class _Execution:
    """A schedule run on symbols: memory[rank][slot, chunk] is an expression."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        nodes = [node for nodes in schedule.inputs for node in nodes]
        self.known = Expressions(["the data"] if schedule.moves else map(_named, nodes))
        self.memory: list[dict] = [{} for _ in schedule.inputs]
        number = iter(range(len(nodes)))
        for rank, own in enumerate(schedule.inputs):
            for slot in range(len(own)):
                symbol = next(number)
                self.memory[rank].update({(slot, chunk): symbol for chunk in range(schedule.chunks)})
        if schedule.moves:
            for chunk, owner in enumerate(schedule.owners):
                self.memory[owner][0, chunk] = 0
        for self.number, step in enumerate(schedule.rounds):
            self._transfer(step)
            self._add(step)

    def _fail(self, text):
        raise ScheduleError(f"{self.schedule.name}: round {self.number}: {text}")

    def _chunks(self, part, *ranks):
        if not all(0 <= rank < self.schedule.ranks for rank in ranks):
            self._fail(f"there is no such rank in {part}")
        if not 0 <= part.start < part.stop <= self.schedule.chunks:
            self._fail(f"there are no such chunks in {part}")
        return range(part.start, part.stop)

    def _read(self, rank, slot, chunk):
        if (slot, chunk) not in self.memory[rank]:
            self._fail(f"rank {rank} reads slot {slot}, chunk {chunk}, which nothing has written yet")
        return self.memory[rank][slot, chunk]

    def _transfer(self, step):
        arrived, read = {}, set()
        for t in step.transfers:
            if t.source == t.destination:
                self._fail(f"rank {t.source} sends chunks [{t.start}, {t.stop}) to itself")
            for chunk in self._chunks(t, t.source, t.destination):
                place = (t.destination, t.target, chunk)
                if place in arrived:
                    self._fail(f"two transfers write slot {t.target}, chunk {chunk} of rank {t.destination}")
                arrived[place] = self._read(t.source, t.origin, chunk)
                read.add((t.source, t.origin, chunk))
        for (rank, slot, chunk), expression in arrived.items():
            if (rank, slot, chunk) in read:
                self._fail(f"rank {rank} sends slot {slot}, chunk {chunk} while it is being written")
            if self.schedule.moves and (slot, chunk) in self.memory[rank]:
                self._fail(f"rank {rank} receives chunk {chunk} in slot {slot}, where it has it already: duplicated")
            self.memory[rank][slot, chunk] = expression

    def _add(self, step):
        for s in step.sums:
            for chunk in self._chunks(s, s.rank):
                left, right = self._read(s.rank, s.into, chunk), self._read(s.rank, s.other, chunk)
                if twice := self.known.common(left, right):
                    self._fail(f"rank {s.rank} adds slot {s.other} to slot {s.into} in chunk {chunk}, "
                               f"and counts more than once: {twice}")
                self.memory[s.rank][s.into, chunk] = self.known.plus(left, right)


def _named(node) -> str:
    """Return the name of a tree node for a message."""
    return f"microbatch {node.index}" if node.level == 0 else str(node)


def complaint(schedule: Schedule) -> str:
    """Return the error of ``prove`` for a schedule, or "" if the schedule is proved. Local."""
    try:
        prove(schedule)
    except ScheduleError as problem:
        return str(problem)
    return ""


def prove(schedule: Schedule) -> Proof:
    """Return the proof of a schedule. Raises ScheduleError, with chunk, rank and round, if it computes something else.

    A reduce-scatter must end with the sum of each chunk on its owner, the other kinds with every sum on every rank. In
    an allgather no rank may receive what it has. Local. The proof is stored in the schedule, which never changes.
    Rounds are run one after the other here. ``check_programs`` checks that ranks which run ahead do not deadlock.
    """
    proof = schedule.__dict__.get(_PROOF)
    if proof is None:
        proof = _prove(schedule)
        object.__setattr__(schedule, _PROOF, proof)
    return proof


def _prove(schedule) -> Proof:
    execution = _Execution(schedule)
    known = execution.known
    leaves = range(len(known.names))
    everything = sum(1 << i for i in leaves)
    nodes = [node for nodes in schedule.inputs for node in nodes]
    tree = 0 if schedule.moves else fold(list(zip(nodes, leaves)), known.plus)
    canonical, depth = True, 0
    for rank, memory in enumerate(execution.memory):
        for chunk in range(schedule.chunks if everything else 0):
            if not schedule.ends_with(rank, chunk):
                continue
            if (0, chunk) not in memory:
                raise ScheduleError(f"{schedule.name}: rank {rank} ends without chunk {chunk}: lost"
                                    f"{_last_written(schedule, rank, chunk)}")
            if lost := everything & ~known.contains[memory[0, chunk]]:
                raise ScheduleError(f"{schedule.name}: rank {rank} ends with a wrong chunk {chunk}: "
                                    f"lost {known.named(lost)}{_last_written(schedule, rank, chunk)}")
            canonical = canonical and memory[0, chunk] == tree
            depth = max(depth, known.depth[memory[0, chunk]])
    return _count(schedule, canonical, depth)


def _last_written(schedule, rank, chunk) -> str:
    """Return the round in which a chunk of a rank's slot 0 was last written, for a message."""
    written = []
    for number, step in enumerate(schedule.rounds):
        writes = [t for t in step.transfers if (t.destination, t.target) == (rank, 0)]
        writes += [s for s in step.sums if (s.rank, s.into) == (rank, 0)]
        if any(part.start <= chunk < part.stop for part in writes):
            written.append(number)
    return f"; last written in round {written[-1]}" if written else "; never written"


def _count(schedule, canonical, depth) -> Proof:
    whole = schedule.chunks
    links, received, added, ports = Counter(), [0] * schedule.ranks, [0] * schedule.ranks, 0
    for step in schedule.rounds:
        for t in step.transfers:
            links[t.source, t.destination] += t.stop - t.start
            received[t.destination] += t.stop - t.start
        for s in step.sums:
            added[s.rank] += s.stop - s.start
        for end in (0, 1):
            ports = max([ports, *Counter(t[end] for t in step.transfers).values()])
    busiest = max(links, key=lambda link: (links[link], -link[0], -link[1]), default=None)
    return Proof(
        canonical, sum(bool(step.transfers) for step in schedule.rounds),
        tuple(schedule.elements_sent(whole)),
        (2 if schedule.kind == "allreduce" else 1) * (schedule.ranks - 1) / schedule.ranks * whole,
        whole, tuple(received), tuple(added), busiest and (*busiest, links[busiest]), ports, depth,
    )
