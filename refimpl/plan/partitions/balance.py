"""Assign partitions to owners by how often their rows are pulled; and measure how even the owners' loads are.

Words are Zipf-distributed, so partitions of equal bytes have very unequal loads, and the step waits for the busiest
owner. Loads are more even with more partitions than owners, and if the loads are known.
"""

import numpy as np

from refimpl.server.partition import row_bytes


def by_popularity(variables, strategies: dict, popularity: dict, ranks: int) -> dict:
    """Return the strategies with new owners: the heaviest partitions first, each to the least loaded owner. Local.

    strategies: variable -> strategy.  popularity: sparse variable -> (rows,), how often each row is pulled in a step. A
    variable without popularity keeps its owners, and its load counts.
    This greedy rule gives the busiest owner at most 4/3 of the least possible load (Graham 1969).
    """
    load, pieces, owners = [0.0] * ranks, [], {}
    for index, v in enumerate(variables):
        strategy = strategies[v.name]
        owners[v.name] = list(strategy.owners)
        for partition, bytes_served in enumerate(strategy.loads(v, ranks, popularity.get(v.name))):
            if strategy.partitioned and v.name in popularity:
                pieces.append((-bytes_served, index, partition, v.name))
            else:
                load[strategy.owners[partition]] += bytes_served
    for bytes_served, _, partition, name in sorted(pieces):
        owner = load.index(min(load))
        load[owner] -= bytes_served
        owners[name][partition] = owner
    return {name: strategy.with_owners(tuple(owners[name])) if strategy.partitioned else strategy
            for name, strategy in strategies.items()}


def owner_loads(variables, plan, popularity: dict | None = None):
    """Return the bytes that each rank is expected to serve in a step under a plan: (N,) float64. Local."""
    total = np.zeros(plan.ranks)
    for v in variables:
        strategy = plan.strategies[v.name]
        loads = strategy.loads(v, plan.ranks, (popularity or {}).get(v.name))
        np.add.at(total, list(strategy.owners)[:len(loads)], loads)
    return total


def imbalance(loads) -> float:
    """Return max / mean of the owners' loads: 1 if all are equal, N if one owner has everything. Local."""
    return float(loads.max() / loads.mean()) if loads.sum() else 1.0


def owned_bytes(plan, variables, arrays: int) -> np.ndarray:
    """Return (N,) int64: the bytes of partitioned variables and their optimizer state on each rank. Local.

    arrays: the number of arrays of a variable's shape: its values, and the optimizer's states.
    """
    total = np.zeros(plan.ranks, np.int64)
    for v in plan.partitioned(variables):
        parts = plan.partitioning(v)
        total += arrays * row_bytes(v) * (v.shape[0] - parts.rows)  # hot rows: a replica on each
        np.add.at(total, list(parts.owners), [arrays * row_bytes(v) * len(parts.rows_of_partition(p))
                                              for p in range(parts.partitions)])
    return total
