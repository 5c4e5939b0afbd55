"""Run a Python command on the ranks of an emulated cluster: the parent's side."""

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass

from refimpl.experiments.cluster.description import CARD, Cluster, Event, rates_of
from refimpl.experiments.cluster.namespaces import ClusterError
from refimpl.transport.job.host import TOLD
from refimpl.transport.launch import LaunchError, mpirun_command, run_job, runtime, terminal_variables

HUB = "refimpl.experiments.cluster.hub"
ACROSS_MACHINES = {  # MPI uses TCP over the card between machines; inside a machine MPICH uses shared memory
    "UCX_TLS": "tcp,self",
    "UCX_NET_DEVICES": CARD,
    "UCX_TCP_BRIDGE_ENABLE": "y",  # a card with cables is a bridge
    "FI_PROVIDER": "tcp",  # for an MPICH over libfabric instead of UCX
    "FI_TCP_IFACE": CARD,
    "OMPI_MCA_btl_tcp_if_include": CARD,
    "GLOO_SOCKET_IFNAME": CARD,
    "NCCL_SOCKET_IFNAME": CARD,
}

TUNING = {  # unless the user has set these variables
    # send messages of any size eagerly, without a rendezvous: MPICH's Allreduce of 16 MiB on 4 x 2 ranks at 200 Mbit/s
    # then takes 1.16 s instead of 1.93 s, an exchange 1.36 s instead of 1.92 s (line rate: 1.34 s)
    "UCX_RNDV_THRESH": "inf",
    # the same for Open MPI, up to a segment: 16 MiB over trees of 4 machines take 1.4 s instead of 2.2 s (64 KiB)
    "OMPI_MCA_btl_tcp_eager_limit": str(1 << 18),
}


@dataclass
class ClusterRun:
    """The result of a job on the cluster, and the bytes on its network.

    seconds: of mpirun, from its start to its end.  machine_bytes[m]: bytes that the card of machine m (sent, received)
    in this time, with all headers, counted by the kernel.  training[m]: the account of the job's training (see
    ``account``); empty if no training was completed.
    """

    returncode: int
    stdout: str | None
    stderr: str | None
    seconds: float
    machine_bytes: list[list[int]]
    training: list[dict]


def run_on_cluster(machines: int, ranks_per_machine: int, rate, arguments: list[str], timeout: float | None = None,
                   capture: bool = False, environment: dict[str, str] | None = None,
                   events: tuple[Event, ...] = (), links=()) -> ClusterRun:
    """Run ``python -m mpi4py *arguments`` on machines × ranks_per_machine ranks of an emulated cluster. Local.

    rate: of each machine's card in each direction, for parse_rate, or a list with one for each machine.
    events: changes during the job.  links: cables between two machines, see Cluster.
    Other arguments are those of ``launch``: ``environment`` is added to this process's; an exit status that is not 0 is
    returned, not raised; however the job ends, nothing is left.
    Raises ClusterError if this machine cannot have such a cluster, LaunchError without MPI, and
    subprocess.TimeoutExpired after ``timeout`` seconds.
    """
    if not sys.platform.startswith("linux"):
        raise ClusterError(f"the emulated cluster is made of Linux namespaces, and this is {sys.platform}: run it on "
                           "Linux, in a container or a virtual machine")
    cluster = Cluster(rates_of(machines, rate), ranks_per_machine, tuple(events), tuple(links))
    command, variables = mpirun_command(cluster.ranks, arguments, "--survive" in arguments)
    env = {**TUNING, **variables, **ACROSS_MACHINES, TOLD: str(cluster.ranks), **terminal_variables(capture),
           **(environment or {})}
    report = os.memfd_create("cluster report")
    try:
        argv = [sys.executable, "-m", HUB, str(os.getpid()), str(report), cluster.to_json(), runtime().flavour,
                *command]
        job = run_job(argv, env, timeout, capture, None, (report,))
        found = json.loads(os.pread(report, 1 << 20, 0) or b"{}")
    finally:
        os.close(report)
    if "missing" in found:
        raise ClusterError(found["missing"])
    return ClusterRun(job.returncode, job.stdout, job.stderr, found.get("seconds", 0.0), found.get("machine_bytes", []),
                      found.get("training", []))


@functools.cache
def missing() -> str:
    """Return what this machine lacks for an emulated cluster, with the remedy; "" if nothing. Local, a second."""
    try:
        run_on_cluster(2, 1, "1gbit", ["-c", ""], timeout=60, capture=True)
    except (ClusterError, LaunchError, subprocess.TimeoutExpired) as error:
        return str(error)
    return ""
