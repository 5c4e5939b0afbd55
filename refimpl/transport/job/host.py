"""This host: its memory, its cores, and how many ranks share them, as the launcher's environment says."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

TOLD = "REFIMPL_RANKS_ON_HOST"
"""Set by ``refimpl cluster``. The ranks of its machines share the cores of one host, which MPI cannot know."""

JOB_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
"""Variables in which launchers give each rank its number."""

LAUNCHERS = (TOLD, "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")
"""Variables in which launchers (ours, MPICH's, Open MPI's) give the number of ranks on this host."""


def core_numbers(process: int = 0) -> list[int]:
    """Return the numbers of the cores that a process (0: this one) may run on; none if this is unknown. Local."""
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
    """Return the bytes of memory that processes may use: the host's, or less in a container or under Slurm. Local."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no such limit, or "max"
        most = min(most, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return most


def ranks_on_host(otherwise: int = 1) -> int:
    """Return how many ranks this host runs; ``otherwise`` if the environment does not say. Local."""
    said = next((os.environ[name] for name in LAUNCHERS if name in os.environ), "")
    return int(said) if said.isdecimal() and int(said) else otherwise


launcher: int | None = None
"""The number of the launcher's process, if it is not this process's parent. Set by a rank's supervisor."""


@cache
def ranks_a_core() -> float:
    """Return how many ranks share a core. Local.

    A rank that is bound to a core sees only this core. So the launcher's cores count, too.
    """
    return ranks_on_host() / max(1, len({*core_numbers(), *core_numbers(launcher or os.getppid())}))
