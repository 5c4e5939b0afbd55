"""Hot rows: the first H rows of a variable travel otherwise than the rest, as if it were two variables.

Where rows are numbered by falling popularity, as words are, the first ones are asked for by every rank in every step:
the server then sends each of them to all, and takes it back from all; an allreduce of a replicated row costs less.

    table    rows [0, H)   a replica on every rank, summed by allreduce ("as-dense") or allgather
             rows [H, R)   partitions on their owners, pulled and pushed

A plan with hot rows is worth what the plan of these two variables is: bytes, messages, seconds.
"""

from dataclasses import dataclass, replace

import numpy as np

from models import Variable
from refimpl.plan.buckets import buckets_of
from refimpl.plan.placement import Plan


@dataclass(frozen=True)
class RowsOf(Variable):
    """Rows [first, first + shape[0]) of ``whole`` as a variable of their own, with the same initial values."""

    whole: Variable | None = None
    first: int = 0

    def initial_rows(self, seed, start=0, stop=None, stride=1):
        rows = range(self.shape[0])[start:stop:stride]
        return self.whole.initial_rows(seed, self.first + rows.start, self.first + rows.stop, rows.step)


def rows_of(variable: Variable, start: int, stop: int, name: str | None = None) -> RowsOf:
    """Return rows [start, stop) of a variable as a variable, of its name if none is given. Local."""
    v = variable
    return RowsOf(name or v.name, (stop - start, *v.shape[1:]), v.sparse, v.initial, v.dtype, v.decays, v.clipped,
                  v.statistic, v, start)


def with_hot_rows(plan: Plan, hot: dict[str, int], way: str = "as-dense") -> Plan:
    """Return the plan with so many hot rows of each variable named, none of the others. way: of WAYS_OF_HOT. Local."""
    return replace(plan, placements=tuple(replace(p, hot=hot.get(p.variable, 0), hot_way=way) for p in plan.placements))


def hot_name(name: str) -> str:
    """Return what the hot rows of a variable are called beside the others, in a plan of two variables."""
    return f"{name}[hot]"


def apart(plan: Plan, variables) -> tuple[Plan, list[Variable]]:
    """Return an equal plan without hot rows, of two variables for each that had some, and all its variables. Local.

    The rest keeps the variable's name. (This is for formulas; the roads themselves call both by the one name.)
    """
    placements, all_variables, hot = [], [], {p.variable: p for p in plan.placements if p.hot}
    by_name = {v.name: v for v in variables}
    for p in plan.placements:
        v = by_name[p.variable]
        placements.append(replace(p, hot=0))
        all_variables.append(rows_of(v, p.hot, v.shape[0]) if p.hot else v)
        if p.hot:
            placements.append(replace(p, variable=hot_name(v.name), way=p.hot_way, owners=(), hot=0))
            all_variables.append(rows_of(v, 0, p.hot, hot_name(v.name)))
    buckets = []
    for bucket in buckets_of(plan):
        buckets.append(bucket.names)
        for way in ("as-dense", "allgather"):
            some = tuple(hot_name(name) for name in bucket.names if name in hot and hot[name].hot_way == way)
            buckets += [some] if some else []
    return replace(plan, placements=tuple(placements), buckets=tuple(buckets)), all_variables


def split_rows(plan: Plan, of_variable: dict, split) -> dict:
    """Return name -> what it has, hot rows under a name of their own. split(value, H): (hot, rest renumbered)."""
    found = dict(of_variable)
    for p in plan.placements:
        if p.hot and p.variable in found:
            found[hot_name(p.variable)], found[p.variable] = split(found[p.variable], p.hot)
    return found


def split_ids(ids, hot: int):
    """Return (row numbers below ``hot``, the others counted from there). ids: (k,) int64, sorted. Local."""
    first = int(np.searchsorted(ids, hot))
    return ids[:first], ids[first:] - hot


def split_lists(id_lists, hot: int):
    """Return (for each list its hot row numbers, for each list the others). Local."""
    pairs = [split_ids(ids, hot) for ids in id_lists]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def split_nodes(per_rank, hot: int):
    """Return what ``split_lists`` does for the lists of each rank. Local."""
    pairs = [split_lists(id_lists, hot) for id_lists in per_rank]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
