"""The decisions of living ranks after a death: functions of plain data. Each rank computes them and gets the same."""

import math

import numpy as np

from refimpl.gradients import leaves_of
from refimpl.plan.mesh import Mesh
from refimpl.server.moves import Moves
from refimpl.server.partition import numbers_in
from refimpl.transport.machines import Machines, machine_of


def partner_of(rank: int, machines: Machines) -> int:
    """Return the rank that keeps copies for a rank: on the next machine if there are several, else the next rank.

    A single rank is its own partner. Local.
    """
    if len(machines) == 1:
        ranks = machines[0]
        return ranks[(ranks.index(rank) + 1) % len(ranks)]
    number = machine_of(machines, rank)
    others = machines[(number + 1) % len(machines)]
    return others[machines[number].index(rank) % len(others)]


def dealt(ranks: int, microbatches: int) -> list[list[int]]:
    """Return the microbatches of each rank at the start: consecutive and as even as possible. Local."""
    return [list(leaves_of(rank, ranks, microbatches)) for rank in range(ranks)]


def mesh_of(members: int, ranks: int, microbatches: int) -> str | None:
    """Return the mesh on which this number of living ranks continues; None: they cut no layer. Local.

    members: of a group, as the user asked. If this does not divide the ranks, groups have the largest number of members
    that divides both, so column blocks stay whole. All ranks must have equally many microbatches.
    """
    fewer = 1 if microbatches % ranks else math.gcd(members, ranks)
    return None if fewer == 1 else str(Mesh(ranks // fewer, fewer))


def dealt_anew(of_rank, alive: list[int]) -> list[list[int]]:
    """Return the microbatches of each living rank: its own, and a share of the dead ranks'. Local.

    of_rank: those of each rank.  alive: the living ranks, in the order of their new numbers. A dead rank's microbatches
    go to the ranks with the fewest.
    """
    found = [list(of_rank[rank]) for rank in alive]
    for microbatch in sorted(v for rank, own in enumerate(of_rank) if rank not in alive for v in own):
        min(found, key=len).append(microbatch)
    return [sorted(own) for own in found]


def rows_of(ranges: list[range] | None, rows: int) -> np.ndarray:
    """Return the row numbers in ranges, in their order; None: all ``rows``: (k,) int64. Local."""
    return numbers_in([range(rows)] if ranges is None else ranges)


def ranges_told(ranges: list[range] | None) -> list | None:
    """Return ranges of rows as JSON. Local."""
    return None if ranges is None else [[r.start, r.stop, r.step] for r in ranges]


def givers(rows: int, held: list[np.ndarray], wanted: list[np.ndarray]) -> list[np.ndarray]:
    """Return, for each rank and each row that it wants, a rank that has the row; -1: no rank has it. Local.

    rows: of the variable.  held[r], wanted[r]: row numbers. A rank takes its own rows from itself, and other rows from
    the lowest rank that has them.
    """
    lowest = np.full(rows, -1)
    for rank in reversed(range(len(held))):
        lowest[held[rank]] = rank
    found = []
    for rank, ids in enumerate(wanted):
        from_whom = lowest.copy()
        from_whom[held[rank]] = rank
        found.append(from_whom[ids])
    return found


def moves_between(rows: int, held: list[np.ndarray], wanted: list[np.ndarray], rank: int) -> Moves | None:
    """Return a rank's moves from the rows that ranks have to the rows that they want; None: a row is lost. Local.

    Arguments: of ``givers``.  A table has these rows in their order.
    """
    from_whom, place = givers(rows, held, wanted), np.full(rows, -1)
    if any((giver < 0).any() for giver in from_whom):
        return None
    place[held[rank]] = np.arange(len(held[rank]))
    return Moves([place[ids[giver == rank]] for ids, giver in zip(wanted, from_whom)],
                 [np.flatnonzero(from_whom[rank] == other) for other in range(len(held))])
