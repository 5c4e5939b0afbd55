"""The values of a step while they arrive: rows come in rounds, each row once. Mappings wait for values under way."""

from collections.abc import Mapping
from typing import Callable

import numpy as np

from kernels import array_module, take_rows
from refimpl.plan.sample import union


class Wanted:
    """Which rows of a variable a rank's microbatches need, and in which round each is fetched. Local.

    needs: list of (k,) int64 sorted unique row numbers, microbatch by microbatch; the i-th needs its rows in round
    min(i, rounds - 1).  fresh[r]: (k,) int64 sorted rows to fetch in round r: those that no round before has fetched.
    Rows lie in a table in the order in which they come: those of round r at ends[r]:ends[r + 1], and microbatch i's at
    places[i], None if they are the whole table as it is.
    """

    def __init__(self, needs, rounds: int = 1):
        self.ids = union(needs)
        places = [None if len(ids) == len(self.ids) else np.searchsorted(self.ids, ids) for ids in needs]
        self.round_of = [min(i, rounds - 1) for i in range(len(needs))]
        if rounds == 1:
            self.fresh, self.ends, self.places = [self.ids], [0, len(self.ids)], places
            return
        first = np.full(len(self.ids), rounds - 1)
        for place, number in reversed(list(zip(places, self.round_of))):
            first[slice(None) if place is None else place] = number
        order = np.argsort(first, kind="stable")
        self.ends = np.searchsorted(first[order], np.arange(rounds + 1)).tolist()
        self.fresh = [self.ids[order[begin:end]] for begin, end in zip(self.ends, self.ends[1:])]
        lies_at = np.empty(len(order), np.int64)
        lies_at[order] = np.arange(len(order))
        self.places = [lies_at if place is None else lies_at[place] for place in places]


class Fetched:
    """The rows of one variable that have come. Local."""

    def __init__(self, wanted: Wanted):
        self.wanted, self.table = wanted, None

    def put(self, number: int, rows):
        """Take the rows of a round: (k, d), of the row numbers wanted.fresh[number]."""
        if len(self.wanted.fresh) == 1:
            self.table = rows
            return
        if self.table is None:
            self.table = array_module(rows).empty((len(self.wanted.ids), rows.shape[1]), rows.dtype)
        self.table[self.wanted.ends[number]:self.wanted.ends[number + 1]] = rows

    def take(self, index: int):
        """Return the rows that the rank's microbatch number ``index`` needs, its round having come."""
        place, ends = self.wanted.places[index], self.wanted.ends
        if place is None:
            return self.table
        return take_rows(self.table[:ends[self.wanted.round_of[index] + 1]], place)  # later rounds may be on their way


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


def alpha_of(variables, needs, wanted=()) -> dict[str, float]:
    """Return name -> α, the part of its rows that this rank touches in a step, of each sparse variable. Local.

    needs: microbatch -> the rows it needs, None without examples.  wanted: of ``wanted_rows``, of those needs.
    """
    asked = [ids for ids in needs.values() if ids is not None]
    return {v.name: len(wanted[v.name].ids if v.name in wanted else union([ids[v.name] for ids in asked]))
            / max(1, v.shape[0]) for v in variables if v.sparse}


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
        return name in self.names  # it is known that it will come; to ask is no reason to wait

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return len(self.names)
