"""What living ranks decide when others die, each for itself and all alike: plain data, no messages."""

import math

import numpy as np

from refimpl.gradients import leaves_of
from refimpl.plan.mesh import Mesh
from refimpl.transport.machines import Machines, machine_of


def partner_of(rank: int, machines: Machines) -> int:
    """Return the rank that keeps copies for a rank: on the next machine if there are several, else the next rank.

    A rank that is alone is its own partner. Local.
    """
    if len(machines) == 1:
        ranks = machines[0]
        return ranks[(ranks.index(rank) + 1) % len(ranks)]
    number = machine_of(machines, rank)
    others = machines[(number + 1) % len(machines)]
    return others[machines[number].index(rank) % len(others)]


def dealt(ranks: int, microbatches: int) -> list[list[int]]:
    """Return the microbatches of each rank before one dies: consecutive and as even as possible. Local."""
    return [list(leaves_of(rank, ranks, microbatches)) for rank in range(ranks)]


def mesh_of(members: int, ranks: int, microbatches: int) -> str | None:
    """Return the mesh on which so many living ranks go on, or None: they cut no layer. Local.

    members: of a group, as it was asked for. Where they do not divide the ranks, groups have the largest number of
    members that divides both, so column blocks stay whole, too. All ranks must have equally many microbatches.
    """
    fewer = 1 if microbatches % ranks else math.gcd(members, ranks)
    return None if fewer == 1 else str(Mesh(ranks // fewer, fewer))


def dealt_anew(of_rank, alive: list[int]) -> list[list[int]]:
    """Return the microbatches of each living rank: its own, and those of dead ranks, dealt to ranks with fewest. Local.

    of_rank: those of each rank.  alive: which ranks live, in the order of their new numbers.
    """
    found = [list(of_rank[rank]) for rank in alive]
    for microbatch in sorted(v for rank, own in enumerate(of_rank) if rank not in alive for v in own):
        min(found, key=len).append(microbatch)
    return [sorted(own) for own in found]


def rows_of(ranges: list[range] | None, rows: int) -> np.ndarray:
    """Return the row numbers in ranges, in their order; all ``rows`` if None: (k,) int64. Local."""
    ranges = [range(rows)] if ranges is None else ranges
    return np.concatenate([np.empty(0, np.int64), *(np.arange(r.start, r.stop, r.step) for r in ranges)])


def ranges_told(ranges: list[range] | None) -> list | None:
    """Return ranges of rows as JSON; None stays None. Local."""
    return None if ranges is None else [[r.start, r.stop, r.step] for r in ranges]


def givers(rows: int, held: list[np.ndarray], wanted: list[np.ndarray]) -> list[np.ndarray]:
    """Return, for each rank and each row that it wants, the rank that has it; -1: no rank has it. Local.

    rows: of the variable.  held[r], wanted[r]: row numbers. A rank takes what it has from itself, and other rows from
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
