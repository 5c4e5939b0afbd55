"""A schedule: a collective algorithm written as data. Nothing here sends a byte.

The vector is cut into C chunks. A rank keeps vectors in numbered slots. At the start slots 0, 1, ... are its own inputs
(one for each node of the microbatch tree that covers its microbatches: mostly one); further slots are scratch. At the
end slot 0 of every rank has the sum. A round moves chunks between ranks, all at once, and then adds slots.

Transfers and sums are tuples of integers, so ``numpy.array(step.transfers)`` is a round as a table of columns, for code
that handles thousands of ranks. Algorithms are generators, so such code can take one round at a time, without a
``Schedule``, which stores all of its rounds.
"""

from dataclasses import dataclass
from typing import NamedTuple

from refimpl.gradients import Node

NCCL = "nccl"
"""The name of a schedule that is only counted: NCCL's own allreduce runs instead."""

KINDS = ("allreduce", "reduce-scatter", "allgather")
"""What an algorithm of ``make_schedule`` computes: the whole or a half."""


class Transfer(NamedTuple):
    """Rank ``source`` sends chunks [start, stop) of its slot ``origin`` to slot ``target`` of rank ``destination``."""

    source: int
    destination: int
    start: int
    stop: int
    origin: int = 0
    target: int = 0


class Sum(NamedTuple):
    """Rank ``rank`` adds slot ``other`` to slot ``into`` in chunks [start, stop)."""

    rank: int
    into: int
    other: int
    start: int
    stop: int


@dataclass(frozen=True)
class Round:
    """A round: all transfers at once (they read the values from before the round), then sums in order."""

    transfers: tuple[Transfer, ...] = ()
    sums: tuple[Sum, ...] = ()

    def of(self, rank: int) -> "Round":
        """Return the part of the round that ``rank`` does."""
        return Round(
            tuple(t for t in self.transfers if rank in (t.source, t.destination)),
            tuple(s for s in self.sums if s.rank == rank),
        )


@dataclass(frozen=True)
class Schedule:
    """A named list of rounds. inputs[r]: the tree nodes of rank r at the start, in slots 0, 1, ...

    kind: "allreduce"; "reduce-scatter", which ends with the sum of chunk c on rank owners[c] alone; or "allgather",
    which begins with these, and has no inputs.
    """

    name: str
    chunks: int
    inputs: tuple[tuple[Node, ...], ...]
    rounds: tuple[Round, ...]
    kind: str = "allreduce"
    owners: tuple[int, ...] = ()

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.inputs)

    @property
    def moves(self) -> bool:
        """Whether it is an allgather, which adds nothing up."""
        return self.kind == "allgather"

    def ends_with(self, rank: int, chunk: int) -> bool:
        """Return whether a rank must have the whole sum of a chunk at the end."""
        return self.kind != "reduce-scatter" or self.owners[chunk] == rank

    def bounds(self, elements: int) -> list[int]:
        """Return where the chunks of a vector begin, as evenly as possible, and its end."""
        return [c * elements // self.chunks for c in range(self.chunks + 1)]

    def elements_sent(self, elements: int) -> list[int]:
        """Return (N,): how many elements each rank sends of a vector of ``elements``."""
        bounds, sent = self.bounds(elements), [0] * self.ranks
        for step in self.rounds:
            for t in step.transfers:
                sent[t.source] += bounds[t.stop] - bounds[t.start]
        return sent

    def programs(self) -> list[tuple[Round, ...]]:
        """Return the program of each rank: its part of each round in which it takes part."""
        parts = [[step.of(rank) for step in self.rounds] for rank in range(self.ranks)]
        return [tuple(p for p in own if p.transfers or p.sums) for own in parts]
