"""Who serves how much: partitions to owners by how often their rows are asked for, and how even that is.

Words are Zipf-distributed: partitions of equal bytes have very unequal loads, and the step waits for the owner that has
most to do. What makes up for it is more partitions than owners, and to know their loads.
"""

from dataclasses import replace

import numpy as np

from refimpl.server.partition import Partitioning


def row_bytes(variable) -> int:
    """Return the bytes of one row of a sparse variable. Local."""
    return variable.shape[1] * np.dtype(variable.dtype).itemsize


def partition_loads(variable, parts, popularity=None):
    """Return the bytes that each partition is expected to serve in a step: (P,) float64. Local.

    popularity: (rows,), how many times each row is pulled in a step; None: every row as often.
    """
    if popularity is None:
        counts = np.array([len(parts.rows_of_partition(p)) for p in range(parts.partitions)], np.float64)
    else:
        rows = map(parts.rows_of_partition, range(parts.partitions))
        counts = np.array([popularity[r.start:r.stop:r.step].sum() for r in rows], np.float64)
    return counts * row_bytes(variable)


def by_popularity(variables, placements, popularity: dict, ranks: int) -> list:
    """Return the placements with other owners: partitions by expected load, heaviest first, to the least loaded. Local.

    popularity: sparse variable -> (rows,), how many times each row is pulled in a step.  A dense variable on the server
    is pulled whole by every rank. A variable that popularity lacks keeps its owners, whose load counts.
    Greedy: the busiest owner has at most 4/3 of the least possible load (Graham 1969).
    """
    load, pieces, owners = [0.0] * ranks, [], {}
    for index, (variable, placement) in enumerate(zip(variables, placements)):
        loads = loads_of(variable, placement, ranks, popularity.get(variable.name))
        owners[index] = list(placement.owners)
        for partition, bytes_served in enumerate(loads):
            if placement.sparse and variable.name in popularity:
                pieces.append((-bytes_served, index, partition))
            else:
                load[placement.owners[partition]] += bytes_served
    for bytes_served, index, partition in sorted(pieces):
        owner = load.index(min(load))
        load[owner] -= bytes_served
        owners[index][partition] = owner
    return [replace(placement, owners=tuple(owners[index])) for index, placement in enumerate(placements)]


def loads_of(variable, placement, ranks: int, popularity=None):
    """Return the bytes that each partition of a placement is expected to serve in a step: (P,) float64. Local."""
    if placement.way != "server":
        return np.empty(0)
    if not placement.sparse:
        return np.array([float(variable.nbytes * ranks)])
    parts = Partitioning(variable.shape[0] - placement.hot, placement.owners, ranks, placement.scheme)
    return partition_loads(variable, parts, None if popularity is None else popularity[placement.hot:])


def owner_loads(variables, plan, popularity: dict | None = None):
    """Return the bytes that each rank is expected to serve in a step under a plan: (N,) float64. Local."""
    total = np.zeros(plan.ranks)
    by_name = {p.variable: p for p in plan.placements}
    for variable in variables:
        placement = by_name[variable.name]
        loads = loads_of(variable, placement, plan.ranks, (popularity or {}).get(variable.name))
        np.add.at(total, list(placement.owners)[:len(loads)], loads)
    return total


def imbalance(loads) -> float:
    """Return max/mean of the owners' loads: 1 where all have as much, N where one has everything. Local."""
    return float(loads.max() / loads.mean()) if loads.sum() else 1.0
