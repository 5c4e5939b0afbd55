"""From one plan to another with other partitions: which rows move where, what that costs, what a rank must hold.

Every rank works out its part from the two plans alone, so that rows travel without their numbers.
"""

from dataclasses import dataclass, replace

import numpy as np

from refimpl.plan.balance import row_bytes
from refimpl.plan.placement import Plan, make_plan
from refimpl.server.partition import Partitioning


@dataclass(frozen=True)
class Moves:
    """What one rank does with its table of one variable.

    leaving[o]: (k,) int64 rows of its old table that rank o owns next, in the order of o's new table.
    arriving[r]: (k,) int64 rows of its new table that rank r owned before, rising. Own rows are in both.
    """

    leaving: list[np.ndarray]
    arriving: list[np.ndarray]


def moves_of(old: Partitioning, new: Partitioning, rank: int) -> Moves:
    """Return what a rank sends and is sent when a variable's rows go from the old owners to the new. Local."""
    return Moves(_rows_by_owner(old, new, rank), [np.sort(rows) for rows in _rows_by_owner(new, old, rank)])


def _rows_by_owner(table: Partitioning, other: Partitioning, rank: int) -> list[np.ndarray]:
    """Return, for each rank, the rows of ``rank``'s table that it has in ``other``, in its order there."""
    partition, index = other.locate(table.global_rows(rank))
    owner = np.asarray(other.owners, np.int64)[partition]
    local = np.asarray(other.first_row, np.int64)[partition] + index
    order = np.lexsort((local, owner))
    return np.split(order, np.cumsum(np.bincount(owner, minlength=table.ranks))[:-1])


def moved_bytes(old: Plan, new: Plan, variables, arrays: int, rank: int) -> dict:
    """Return {(phase, variable, kind): (sent, received)} of a move on one rank, zero entries left out. Local.

    arrays: how many of each variable's shape move: its values and each of the optimizer's states.
    """
    found = {}
    for v in served(old, variables):
        moves, size = moves_of(old.partitioning(v), new.partitioning(v), rank), arrays * row_bytes(v)
        sent, received = (size * sum(len(rows) for r, rows in enumerate(side) if r != rank)
                          for side in (moves.leaving, moves.arriving))
        if sent or received:
            found["repartition", v.name, "rows"] = (sent, received)
    return found


def served(plan: Plan, variables) -> list:
    """Return the sparse variables that the plan sends to the server, in the model's order. Local."""
    names = set(plan.names("server", True))
    return [v for v in variables if v.name in names]


def served_bytes(plan: Plan, variables, arrays: int) -> np.ndarray:
    """Return the bytes of served rows and their state that each rank holds under a plan: (N,) int64. Local."""
    total = np.zeros(plan.ranks, np.int64)
    for v in served(plan, variables):
        parts = plan.partitioning(v)
        total += arrays * row_bytes(v) * (v.shape[0] - parts.rows)  # hot rows: a replica on each
        np.add.at(total, list(parts.owners), [arrays * row_bytes(v) * len(parts.rows_of_partition(p))
                                              for p in range(parts.partitions)])
    return total


def with_partitions(plan: Plan, variables, partitions: int) -> Plan:
    """Return the plan with P partitions of each sparse variable on the server, dealt as ``make_plan`` does. Local."""
    fresh = make_plan(variables, plan.architecture, plan.ranks, plan.microbatches, partitions=partitions,
                      machines=plan.machines, ways={p.variable: p.way for p in plan.placements})
    owners = {p.variable: p.owners for p in fresh.placements}
    return replace(plan, placements=tuple(replace(p, owners=owners[p.variable]) if p.sparse and p.way == "server" else p
                                          for p in plan.placements))
