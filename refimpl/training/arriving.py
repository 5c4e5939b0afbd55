"""Values of a step as they come: rows in rounds, each fetched once; and mappings that wait for what is on its way."""

from collections.abc import Mapping
from typing import Callable

import numpy as np

from kernels import array_module, take_rows
from refimpl.plan.sample import union


class Wanted:
    """Which rows of a variable a rank's microbatches need, and in which round each is fetched. Local.

    needs: list of (k,) int64 sorted unique row numbers, microbatch by microbatch; the i-th needs its rows in round
    min(i, rounds - 1).  fresh[r]: (k,) int64 sorted rows to fetch in round r: those that no round before has fetched.
    """

    def __init__(self, needs, rounds: int = 1):
        self.ids = union(needs)
        self.places = [None if len(ids) == len(self.ids) else np.searchsorted(self.ids, ids) for ids in needs]
        self.round_of = [min(i, rounds - 1) for i in range(len(needs))]
        if rounds == 1:
            self.fresh, self.fresh_places = [self.ids], [None]
            return
        first = np.full(len(self.ids), rounds - 1)
        for place, number in reversed(list(zip(self.places, self.round_of))):
            first[slice(None) if place is None else place] = number
        order = np.argsort(first, kind="stable")
        ends = np.searchsorted(first[order], np.arange(1, rounds))
        self.fresh_places = np.split(order, ends)
        self.fresh = [self.ids[place] for place in self.fresh_places]


class Fetched:
    """The rows of one variable that have come. Local."""

    def __init__(self, wanted: Wanted):
        self.wanted, self.table = wanted, None

    def put(self, number: int, rows):
        """Take the rows of a round: (k, d), of the row numbers wanted.fresh[number]."""
        place = self.wanted.fresh_places[number]
        if place is None:
            self.table = rows
            return
        xp = array_module(rows)
        if self.table is None:
            self.table = xp.empty((len(self.wanted.ids), rows.shape[1]), rows.dtype)
        self.table[xp.asarray(place)] = rows

    def take(self, index: int):
        """Return the rows that the rank's microbatch number ``index`` needs, its round having come."""
        place = self.wanted.places[index]
        return self.table if place is None else take_rows(self.table, place)


def wanted_rows(needs, names, rounds: int) -> dict[str, Wanted]:
    """Return name -> Wanted. needs: list of (name -> row numbers), microbatch by microbatch. Local.

    Variables of which every microbatch needs the same arrays of row numbers share what is worked out.
    """
    found: dict[tuple, Wanted] = {}
    result = {}
    for name in names:
        lists = [ids[name] for ids in needs]
        key = tuple(map(id, lists))
        if key not in found:
            found[key] = Wanted(lists, rounds)
        result[name] = found[key]
    return result


class Arriving(Mapping):
    """name -> value, of which some may be on their way: looking one up waits for it. fetch(name) -> value. Local."""

    def __init__(self, names, fetch: Callable):
        self.names, self.fetch, self.here = frozenset(names), fetch, {}

    def __getitem__(self, name):
        if name not in self.here:
            if name not in self.names:
                raise KeyError(name)
            self.here[name] = self.fetch(name)
        return self.here[name]

    def __contains__(self, name):
        return name in self.names  # to know that it will come, nobody need wait

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return len(self.names)
