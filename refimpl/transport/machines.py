"""Which ranks share a machine. Ranks of one machine share memory; a network lies between machines."""

import numpy as np

Machines = tuple[tuple[int, ...], ...]
"""The ranks of each machine, rising; machines in the order of their lowest rank."""


def machines_of(colors) -> Machines:
    """Return the machines of ranks. colors[r]: any number, the same for all ranks of a machine. Local."""
    groups: dict[int, list[int]] = {}
    for rank, color in enumerate(colors):
        groups.setdefault(int(color), []).append(rank)
    return tuple(tuple(group) for group in groups.values())


def in_blocks(ranks: int, each: int) -> Machines:
    """Return machines of ``each`` consecutive ranks; the last may have fewer. Local."""
    return tuple(tuple(range(first, min(first + each, ranks))) for first in range(0, ranks, each))


def of_sizes(sizes, ranks: int) -> Machines:
    """Return machines of these numbers of consecutive ranks: of_sizes([3, 1], 4) is ((0, 1, 2), (3,)). Local.

    Raises ValueError unless the sizes add up to ``ranks``.
    """
    if sum(sizes) != ranks:
        raise ValueError(f"--machines {' '.join(map(str, sizes))}: machines must hold ranks 0 to {ranks - 1}, and "
                         f"these have {sum(sizes)} ranks; give sizes that add up to {ranks}")
    ends = np.cumsum([0, *sizes]).tolist()
    return tuple(tuple(range(first, end)) for first, end in zip(ends, ends[1:]))


def machine_of(machines: Machines, rank: int) -> int:
    """Return the index of the machine of a rank. Local."""
    return next(index for index, ranks in enumerate(machines) if rank in ranks)
