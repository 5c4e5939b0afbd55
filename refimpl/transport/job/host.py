"""This host: its memory, its cores, and how many ranks share them. The launcher says it in the environment."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

TOLD = "REFIMPL_RANKS_ON_HOST"
"""Set by ``refimpl cluster``: its machines' ranks share the cores of one host, and MPI cannot know it."""

JOB_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
"""What a launcher tells each of its ranks: its number."""

LAUNCHERS = (TOLD, "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")
"""What launchers (ours, MPICH's, Open MPI's) set."""


def core_numbers(process: int = 0) -> list[int]:
    """Return the numbers of the cores that a process (0: this one) may run on; none if it cannot be seen. Local.

    Launchers may give each rank its own.
    """
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    try:
        return sorted(os.sched_getaffinity(process))
    except OSError:
        return []


def cores() -> int:
    """Return how many cores this process may run on. Local."""
    return len(core_numbers())


def memory() -> int:
    """Return the bytes of memory that this host has, or lets its processes have (containers, Slurm). Local."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no such limit, or "max"
        most = min(most, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return most


def ranks_on_host(otherwise: int = 1) -> int:
    """Return how many ranks this host runs; ``otherwise`` where no launcher says. Local."""
    said = next((os.environ[name] for name in LAUNCHERS if name in os.environ), "")
    return int(said) if said.isdecimal() and int(said) else otherwise


launcher: int | None = None
"""Number of the launcher's process, where it is not this one's parent. Set by a rank's supervisor."""


@cache
def ranks_a_core() -> float:
    """Return how many ranks share a core: those that wait must not keep others from working. Local.

    A rank that is bound to a core sees only this core. Its launcher may run on all cores that it gave to ranks.
    """
    return ranks_on_host() / max(1, len({*core_numbers(), *core_numbers(launcher or os.getppid())}))
