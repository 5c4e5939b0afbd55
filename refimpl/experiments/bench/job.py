"""The job behind a race between ranks: it is started here, and its rank 0 prints one JSON object.

Both ends: ``measure`` starts a module on ranks, in which ``answer`` runs what they do.
"""

import json
import subprocess
import sys
from typing import Callable

from refimpl.experiments.cluster import ClusterError, run_on_cluster
from refimpl.transport.launch import LaunchError, launch

RATE = "200mbit"
BYTES_A_SECOND = 200_000_000 / 8
"""In and out of each machine of the emulated cluster, whose cards have RATE."""


def measure(module: str, wanted, ranks: int = 1, machines: int = 0, timeout: float | None = None) -> dict:
    """Run ``module`` with ``wanted`` as JSON on ranks of this machine; return what its rank 0 printed last. Local.

    machines: emulated ones, of ``ranks`` each.  Raises ValueError with the ranks' own words if they fail, cannot be
    started, or are not done after ``timeout`` seconds.
    """
    arguments = ["-m", module, json.dumps(wanted)]
    try:
        job = (run_on_cluster(machines, ranks, RATE, arguments, timeout, capture=True) if machines else
               launch(ranks, arguments, timeout, capture=True))
    except (ClusterError, LaunchError) as problem:
        raise ValueError(str(problem)) from problem
    except subprocess.TimeoutExpired as late:
        raise ValueError(f"the ranks of {module} were not done after {timeout:g} s: "
                         f"{(late.stderr or '')[-4000:]}") from late
    if job.returncode:
        raise ValueError(f"the ranks of {module} ended with status {job.returncode}:\n{job.stderr[-4000:]}")
    return json.loads(job.stdout.strip().splitlines()[-1])


def answer(work: Callable) -> None:
    """Run work(comm, wanted) on each rank, one thread each; print what it returns on rank 0. Collective."""
    from threadpoolctl import threadpool_limits

    from refimpl.transport import Communicator  # MPI: never in the process that starts the ranks

    comm = Communicator.of()
    with threadpool_limits(1):
        found = work(comm, json.loads(sys.argv[1]))
    if comm.rank == 0:
        print(json.dumps(found), flush=True)
