"""In which order a group sends the partitions of a variable, so that each message is one slice of sorted rows."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from refimpl.server.groups import Groups
from refimpl.server.partition import Partitioning, Route


@dataclass(frozen=True)
class Places:
    """The partitions of a variable in the order (handler, round, owner, partition); place i holds partition order[i].

    An owner's partitions are exchanged one by one, or ``each`` together: its k-th in *round* k // each. A *key* counts
    a variable's rows through the partitions in that order, so the rows that go to one handler in one round are one
    slice of the sorted keys, and those of one owner among them, too. The ranks of a group have the same places, and
    send each other keys. (Local.)
    """

    parts: Partitioning
    groups: Groups
    group: int
    each: int = 1

    @cached_property
    def _rounds(self) -> list[int]:
        """The round of each partition: how many rounds of partitions its owner has before it."""
        seen = [0] * self.parts.ranks
        rounds = []
        for owner in self.parts.owners:
            rounds.append(seen[owner] // self.each)
            seen[owner] += 1
        return rounds

    @cached_property
    def rounds(self) -> int:
        """Rounds of an exchange of all partitions."""
        return 1 + max(self._rounds)

    @cached_property
    def order(self) -> list[int]:
        """The partition at each place.

        Handlers and owners come by their first partition: so the order is 0, 1, 2... if each rank has one.
        """
        owners = self.parts.owners
        handlers = [self.groups.handler(self.group, owner) for owner in owners]
        return sorted(range(self.parts.partitions),
                      key=lambda p: (handlers.index(handlers[p]), self._rounds[p], owners.index(owners[p]), p))

    @cached_property
    def starts(self):
        """First key of each place, and the end: (P + 1,) int64."""
        return np.cumsum([0] + [len(self.parts.rows_of_partition(p)) for p in self.order], dtype=np.int64)

    @cached_property
    def shift(self):
        """What takes the keys of each place to rows of the owner's table: (P,) int64."""
        return np.array([self.parts.first_row[p] for p in self.order], np.int64) - self.starts[:-1]

    @cached_property
    def _first_key(self):
        """First key of each partition: (P,) int64."""
        return self.starts[np.argsort(self.order)]

    @cached_property
    def _spans(self) -> dict[tuple, tuple[int, int]]:
        """(handler,), (handler, round) and (handler, round, owner) -> first place and end."""
        spans: dict[tuple, tuple[int, int]] = {}
        for place, p in enumerate(self.order):
            owner = self.parts.owners[p]
            whole = self.groups.handler(self.group, owner), self._rounds[p], owner
            for key in (whole[:1], whole[:2], whole):
                spans[key] = spans.get(key, (place, 0))[0], place + 1
        return spans

    def span(self, *where) -> tuple[int, int]:
        """Return (first place, end) of a handler, of its round, or of an owner in that round; (0, 0) if it has none."""
        return self._spans.get(where, (0, 0))

    def route(self, ids) -> Route:
        """Return how to send row numbers: as keys, a piece for each place. ids: (k,) int64, strictly increasing."""
        partition, index = self.parts.locate(ids)
        keys, order = self._first_key[partition] + index, None
        if (keys[1:] < keys[:-1]).any():
            order = np.argsort(keys, kind="stable")
            keys = keys[order]
        return Route(keys, self.bounds(keys), order)

    def bounds(self, keys):
        """Return where each place begins in sorted keys, and the end: (P + 1,) int64."""
        return np.searchsorted(keys, self.starts)

    def local(self, keys, place: int):
        """Return the rows of the owner's table of keys of its partitions in a round, the first of them at ``place``."""
        return keys + self.shift[place]
