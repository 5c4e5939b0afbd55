"""What pull and push have in common: who owns what, who speaks to whom, and how many rounds an exchange has."""

from functools import lru_cache

import numpy as np

from kernels import unique_ids
from refimpl.server.groups import Groups
from refimpl.server.lists import RowList
from refimpl.server.partition import Partitioning
from refimpl.server.places import Places
from refimpl.server.rounds import partitions_a_round
from refimpl.transport import Communicator


class Shards:
    """Partitioned variables as one rank sees them. Local.

    row_bytes: variable -> bytes of a row.  places: variable -> the places of its partitions in this rank's group.
    pieces: variable -> how many partitions this rank owns.
    mates: the group's other ranks.  owners: owners outside that this rank speaks to.  handlers: who speaks to it.
    """

    def __init__(self, partitionings: dict[str, Partitioning], row_bytes: dict[str, int], comm: Communicator, groups: Groups):
        self.comm, self.groups, self.me = comm, groups, comm.rank
        self.group = groups.group_of(comm.rank)
        self.places = {name: Places(parts, groups, self.group, partitions_a_round(parts, row_bytes[name]))
                       for name, parts in partitionings.items()}
        self.pieces = {name: len(parts.partitions_of(comm.rank)) for name, parts in partitionings.items()}
        self.mates, self.owners = groups.mates(comm.rank), groups.handled(comm.rank)
        self.handlers = groups.handlers(comm.rank)
        self.mine = lru_cache(maxsize=None)(self._mine)

    def rounds(self, names) -> range:
        """Return the rounds of an exchange of some variables: as many as the most partitions of an owner."""
        return range(max((self.places[name].rounds for name in names), default=0))

    def served(self, name: str, number: int) -> tuple[int, int]:
        """Return the first of this rank's own partitions that are exchanged in a round, and the end."""
        each, pieces = self.places[name].each, self.pieces[name]
        return min(number * each, pieces), min((number + 1) * each, pieces)

    def _mine(self, name: str, *where: int) -> tuple[int, int]:
        """Return the first piece and the end, of a list that passes through this rank, of a round [and an owner]."""
        first, _ = self.places[name].span(self.me)
        low, high = self.places[name].span(self.me, *where)
        return (low - first, high - first) if high else (0, 0)

    def expected(self, name: str) -> tuple[str, int]:
        """Return what a mate's list that passes through this rank looks like."""
        low, high = self.places[name].span(self.me)
        return name, high - low

    def part_for(self, handler: int, name: str, route) -> RowList:
        """Return the part of a route that passes through a handler."""
        low, high = span = self.places[name].span(handler)
        return RowList(name, route.numbers[route.part(*span)], route.bounds[low:high + 1] - route.bounds[low])

    def union(self, name: str, lists: list[RowList]) -> RowList:
        """Return one list that has the keys of all these lists, which pass through this rank."""
        if len(lists) == 1:
            return lists[0]
        keys = unique_ids(np.concatenate([one.numbers for one in lists]))
        low, high = self.places[name].span(self.me)
        return RowList(name, keys, np.searchsorted(keys, self.places[name].starts[low:high + 1]))

    def parts_of_owners(self, lists: list[RowList]) -> dict[int, list[RowList]]:
        """Return what concerns each owner of lists that pass through this rank: rows of its table, by partition."""
        found: dict[int, list[RowList]] = {owner: [] for owner in self.owners}
        for keys in lists:
            places, (low, high) = self.places[keys.variable], self.places[keys.variable].span(self.me)
            lengths = keys.bounds[1:] - keys.bounds[:-1]
            local = RowList(keys.variable, keys.numbers + np.repeat(places.shift[low:high], lengths), keys.bounds)
            for owner, some in found.items():
                some.append(self._in_rounds(local, owner, places.rounds))
        return found

    def _in_rounds(self, local: RowList, owner: int, rounds: int) -> RowList:
        """Return the part of an owner, whose partitions of a round lie side by side."""
        spans = [span for number in range(rounds) if (span := self.mine(local.variable, number, owner))[1]]
        if len(spans) == 1:
            (first, end), = spans
            return RowList(local.variable, local.numbers[local.piece(first, end)],
                           local.bounds[first:end + 1] - local.bounds[first])
        numbers = [np.empty(0, np.int64), *(local.numbers[local.piece(*span)] for span in spans)]
        lengths = [np.zeros(1, np.int64), *(np.diff(local.bounds[first:end + 1]) for first, end in spans)]
        return RowList(local.variable, np.concatenate(numbers), np.cumsum(np.concatenate(lengths)))
