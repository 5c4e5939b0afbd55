"""Rounds of an exchange, one ahead of the other: while what came is worked on, the next is under way."""

from typing import Iterable, Iterator, TypeVar

from refimpl.server.partition import Partitioning

T = TypeVar("T")

ROUND = 1 << 18  # bytes of rows, were all of them wanted: with less a round costs more than what it lets begin sooner


def partitions_a_round(parts: Partitioning, row_bytes: int) -> int:
    """Return how many partitions of an owner are exchanged in one round: one, or more of them if they are small. Local.

    It depends on the partitions alone, so that ranks need not tell each other.
    """
    largest = -(-parts.rows // parts.partitions) * row_bytes
    return max(1, ROUND // max(1, largest))


def ahead(begun: Iterable[T]) -> Iterator[T]:
    """Yield what ``begun`` begins, each only after the next has been begun too. Local.

    ``for pending in ahead(start(k) for k in rounds): pending.wait(); ...`` has one round under way while it works.
    """
    waiting: list[T] = []
    for item in begun:
        waiting.append(item)
        if len(waiting) > 1:
            yield waiting.pop(0)
    yield from waiting
