"""The values of a step while they arrive. Rows are pulled in rounds, each row once. A look-up waits for its value."""

from collections.abc import Mapping
from typing import Callable

import numpy as np

from kernels import array_module, take_rows
from refimpl.plan.sample import union


class Wanted:
    """The rows of a variable that a rank's microbatches need, and the round in which each is pulled. Local.

    needs: list of (k,) int64 sorted unique row numbers, microbatch by microbatch. The i-th microbatch needs its rows
    after round min(i, rounds - 1).  fresh[r]: (k,) int64 sorted rows to pull in round r, those of no earlier round. A
    table has the rows in the order in which they arrive: round r at ends[r]:ends[r + 1]. Those of microbatch i are at
    places[i]; None: it needs the whole table.
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
    """The rows of one variable that have arrived. Local."""

    def __init__(self, wanted: Wanted):
        self.wanted, self.table = wanted, None

    def put(self, number: int, rows):
        """Store the rows of a round: (k, d), for the row numbers wanted.fresh[number]."""
        if len(self.wanted.fresh) == 1:
            self.table = rows
            return
        if self.table is None:
            self.table = array_module(rows).empty((len(self.wanted.ids), rows.shape[1]), rows.dtype)
        self.table[self.wanted.ends[number]:self.wanted.ends[number + 1]] = rows

    def take(self, index: int):
        """Return the rows of the rank's microbatch number ``index``. Its round must have arrived."""
        place, ends = self.wanted.places[index], self.wanted.ends
        if place is None:
            return self.table
        return take_rows(self.table[:ends[self.wanted.round_of[index] + 1]], place)  # later rounds may be on their way


def wanted_rows(needs, names, rounds: int) -> dict[str, Wanted]:
    """Return name -> Wanted. needs: list of (name -> row numbers), microbatch by microbatch. Local.

    Variables for which every microbatch needs the same arrays of row numbers share a Wanted.
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
    """Return name -> α of each sparse variable: the fraction of its rows that this rank touches in a step. Local.

    needs: microbatch -> the rows it needs, None if it has no examples.  wanted: ``wanted_rows`` of these.
    """
    asked = [ids for ids in needs.values() if ids is not None]
    return {v.name: len(wanted[v.name].ids if v.name in wanted else union([ids[v.name] for ids in asked]))
            / max(1, v.shape[0]) for v in variables if v.sparse}


class Arriving(Mapping):
    """A mapping name -> value, in which a look-up waits for a value that is under way: fetch(name) -> value. Local."""

    def __init__(self, names, fetch: Callable):
        self.names, self.fetch, self.here = frozenset(names), fetch, {}

    def __getitem__(self, name):
        if name not in self.here:
            if name not in self.names:
                raise KeyError(name)
            self.here[name] = self.fetch(name)
        return self.here[name]

    def __contains__(self, name):
        return name in self.names  # without waiting for the value

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return len(self.names)
