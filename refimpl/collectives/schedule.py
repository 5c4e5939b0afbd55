"""A schedule: an allreduce algorithm written as data. Nothing in it sends a byte.

The vector is cut into C chunks. A rank holds it in numbered slots: at first slots 0, 1, ... are its own inputs (one
for each node of the microbatch tree that covers its microbatches: mostly one); further slots are scratch. At the end
slot 0 of every rank holds the sum. A round moves chunks between ranks, all at once, and then adds slots.
"""

from dataclasses import dataclass

from refimpl.gradients import Node


@dataclass(frozen=True)
class Transfer:
    """Rank ``source`` sends chunks [start, stop) of its slot ``origin`` into slot ``target`` of rank ``destination``."""

    source: int
    destination: int
    start: int
    stop: int
    origin: int = 0
    target: int = 0


@dataclass(frozen=True)
class Sum:
    """Rank ``rank`` adds slot ``other`` to slot ``into`` in chunks [start, stop)."""

    rank: int
    into: int
    other: int
    start: int
    stop: int


@dataclass(frozen=True)
class Round:
    """What happens between two moments: all transfers at once (they read what was there before), then sums in order."""

    transfers: tuple[Transfer, ...] = ()
    sums: tuple[Sum, ...] = ()

    def of(self, rank: int) -> "Round":
        """Return the part in which ``rank`` takes part."""
        return Round(
            tuple(t for t in self.transfers if rank in (t.source, t.destination)),
            tuple(s for s in self.sums if s.rank == rank),
        )


@dataclass(frozen=True)
class Schedule:
    """A named list of rounds. inputs[r]: the tree nodes that rank r holds at first, in slots 0, 1, ..."""

    name: str
    chunks: int
    inputs: tuple[tuple[Node, ...], ...]
    rounds: tuple[Round, ...]

    @property
    def ranks(self) -> int:
        return len(self.inputs)

    def bounds(self, elements: int) -> list[int]:
        """Return where the chunks of a vector begin, and its end: as even as can be."""
        return [c * elements // self.chunks for c in range(self.chunks + 1)]

    def elements_sent(self, elements: int) -> list[int]:
        """Return for each rank how many elements of a vector of ``elements`` it sends in all."""
        bounds, sent = self.bounds(elements), [0] * self.ranks
        for step in self.rounds:
            for t in step.transfers:
                sent[t.source] += bounds[t.stop] - bounds[t.start]
        return sent
