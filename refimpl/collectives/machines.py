"""Which ranks share a machine: memory inside, network across."""

import numpy as np
from mpi4py import MPI

Machines = tuple[tuple[int, ...], ...]
"""The ranks of each machine, rising; machines in the order of their lowest rank."""


def machines_of(colors) -> Machines:
    """Return the machines of ranks that each name theirs. colors[r]: any number, equal on one machine. Local."""
    groups: dict[int, list[int]] = {}
    for rank, color in enumerate(colors):
        groups.setdefault(int(color), []).append(rank)
    return tuple(tuple(group) for group in groups.values())


def in_blocks(ranks: int, each: int) -> Machines:
    """Return ``ranks`` consecutive ranks on machines of ``each`` (the last may have fewer). Local."""
    return tuple(tuple(range(first, min(first + each, ranks))) for first in range(0, ranks, each))


def of_sizes(sizes) -> Machines:
    """Return consecutive ranks on machines of so many ranks each: of_sizes([3, 1]) is ((0, 1, 2), (3,)). Local."""
    ends = np.cumsum([0, *sizes]).tolist()
    return tuple(tuple(range(first, end)) for first, end in zip(ends, ends[1:]))


def find_machines(comm) -> Machines:
    """Return the groups of ranks of ``comm`` that can share memory, as MPI knows them. Collective over ``comm``."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    leader = np.empty(1, np.int64)
    leader[0] = comm.Get_rank()
    node.Bcast(leader, root=0)
    node.Free()
    colors = np.empty(comm.Get_size(), np.int64)
    comm.Allgather(leader, colors)
    return machines_of(colors)


def machine_of(machines: Machines, rank: int) -> int:
    """Return the index of the machine of a rank. Local."""
    return next(index for index, ranks in enumerate(machines) if rank in ranks)
