"""The job of all measurements on several ranks: ``measure`` starts it, and rank 0 prints one JSON object.

    mpirun -n 4 python -m refimpl.experiments.job MODULE:FUNCTION JSON
"""

import importlib
import json
import subprocess
import sys

from refimpl.experiments.cluster import ClusterError, run_on_cluster
from refimpl.transport.launch import LaunchError, launch

RATE = "200mbit"
BYTES_A_SECOND = 200_000_000 / 8
"""Bytes/s in and out of each emulated machine, whose card has RATE."""


class JobFailed(ValueError):
    """A job whose ranks failed; the message holds the end of their error output."""

    def __init__(self, work: str, job):
        super().__init__(f"the ranks of {work} ended with status {job.returncode}:\n{job.stderr[-4000:]}")
        self.job = job


def measure(work: str, wanted: dict, ranks: int = 1, machines: int = 0, timeout: float | None = None,
            rates=RATE, links=(), events=()) -> dict:
    """Run function(comm, **wanted) on ranks of this machine; return rank 0's result. Local.

    work: "module:function".  machines: emulated ones, of ``ranks`` each.  rates: of their cards, one for all or each.
    links: cables between two of them (``cables_of``).  events: changes of the network during the run.
    Raises JobFailed if the ranks fail, ValueError if they cannot be started or need more than ``timeout`` seconds.
    """
    arguments = ["-m", __name__, work, json.dumps(wanted)]
    try:
        job = (run_on_cluster(machines, ranks, rates, arguments, timeout, True, links=links, events=events)
               if machines else launch(ranks, arguments, timeout, capture=True))
    except (ClusterError, LaunchError) as problem:
        raise ValueError(str(problem)) from problem
    except subprocess.TimeoutExpired as late:
        raise ValueError(f"the ranks of {work} were not done after {timeout:g} s: "
                         f"{(late.stderr or '')[-4000:]}") from late
    if job.returncode:
        raise JobFailed(work, job)
    return json.loads(job.stdout.strip().splitlines()[-1])


def answer(work: str, wanted: str) -> None:
    """Run a function on each rank, one thread each; print rank 0's result. Collective."""
    from threadpoolctl import threadpool_limits

    from refimpl.transport import CollectiveError, Communicator  # starts MPI: only in the ranks

    comm, (module, _, function) = Communicator.of(), work.partition(":")
    with threadpool_limits(1):
        try:
            found = getattr(importlib.import_module(module), function)(comm, **json.loads(wanted))
        except CollectiveError as problem:  # the same on all ranks
            sys.exit(str(problem) if comm.rank == 0 else 1)
    if comm.rank == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    answer(*sys.argv[1:])
