"""Rounds of an exchange, one ahead of the other: while what came is worked on, the next is under way."""

from typing import Iterable, Iterator, TypeVar

T = TypeVar("T")


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
