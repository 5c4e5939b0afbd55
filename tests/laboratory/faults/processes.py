"""The processes of one job, found from outside by a mark in their environment, whatever session they moved to."""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from refimpl.transport.job.host import JOB_VARIABLES

MARK = "REFIMPL_FAULTS_JOB"
"""Environment variable that every process of a job inherits; its value names the job."""
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Process:
    """A living process of a job. rank: None for launcher, proxy and helpers; of a rank's children the rank's, too."""

    pid: int
    parent: int
    state: str
    name: str
    rank: int | None


class Finder:
    """Finds the living processes of a job; zombies do not live. Local: Linux, by /proc.

    job: value of MARK in their environment.
    """

    def __init__(self, job: str):
        self.mark = f"{MARK}={job}".encode()
        self.members: dict[int, int | None] = {}  # pid -> rank

    def living(self) -> list[Process]:
        """Return the job's living processes."""
        found = [self._look(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()]
        return [process for process in found if process is not None]

    def _look(self, pid):
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
            name, fields = text.partition("(")[2].rpartition(")")[0], text.rpartition(")")[2].split()
            if fields[0] in "ZX":
                return None
            if pid not in self.members or self.members[pid] is None:  # a rank's environment comes with its exec
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                if self.mark not in environment:
                    return None
                self.members[pid] = _rank_of(environment)
        except (OSError, IndexError):  # gone meanwhile, or another user's
            return None
        return Process(pid, int(fields[1]), fields[0], name, self.members[pid])


def _rank_of(environment) -> int | None:
    said = dict(entry.split(b"=", 1) for entry in environment if b"=" in entry)
    return next((int(said[name.encode()]) for name in JOB_VARIABLES if name.encode() in said), None)


def targets_of(processes: list[Process], launcher: int) -> dict[str, int]:
    """Return "rank 0", "supervisor 0", ..., "launcher", "proxy" -> pid, of those that there are. Local.

    All have the rank's environment: the supervisor is the one whose parent is no rank; its child is the rank, which has
    children of its own. As long as it has no child, it stands for the rank, too.
    """
    ranks = {process.pid for process in processes if process.rank is not None}
    above = {p.pid: p.rank for p in processes if p.rank is not None and p.parent not in ranks}
    found = {f"{what} {rank}": pid for pid, rank in above.items() for what in ("supervisor", "rank")}
    found |= {f"rank {p.rank}": p.pid for p in processes if p.parent in above}
    proxies = [p.pid for p in processes if p.rank is None and ("proxy" in p.name or "prted" in p.name)]
    return {**found, "launcher": launcher, **({"proxy": proxies[0]} if proxies else {})}


def kill(processes: list[Process]):
    """Kill processes at once, by their ids. Local."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)


def shared_files() -> set[str]:
    """Return the names in /dev/shm. Local."""
    return set(os.listdir(SHARED_MEMORY)) if SHARED_MEMORY.exists() else set()


def nobodys(names: set[str]) -> set[str]:
    """Return those files of /dev/shm that no living process has mapped. Local."""
    if not names:
        return set()
    mapped = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            mapped |= {line.rpartition("/")[2] for line in maps.read_text(errors="replace").splitlines()
                       if "/dev/shm/" in line}
    return names & shared_files() - mapped
