"""The first process of a cluster: it makes the machines and runs mpirun on them. When it ends, all of it ends.

run.py starts it as ``hub.py PARENT REPORT CLUSTER FLAVOUR MPIRUN…``. It is process 1 of a new process namespace. When
it ends, for any reason, the kernel kills every process of the cluster, and networks, mounts and shared memory end with
them. It is killed when its parent ends, so nothing is ever left.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from refimpl.experiments.cluster.description import Cluster, machine_name
from refimpl.experiments.cluster.launcher import HOLDERS
from refimpl.experiments.cluster.machine import account_of, bytes_of, hold
from refimpl.experiments.cluster.namespaces import ClusterError, become_root, mount, unshare
from refimpl.experiments.cluster.network import SERVICE_BRIDGE, SERVICE_NETWORK, ClusterNetwork
from refimpl.transport.job.supervisor import end_with

GRACE_SECONDS = 3.0  # mpirun has these to end its ranks
LAUNCHER = "refimpl.experiments.cluster.launcher"
UNAVAILABLE = 2  # exit status: no cluster is possible here; the report says why


def main() -> int:
    """Start process 1 of new namespaces, wait for it, and return its exit status."""
    parent, report = int(sys.argv[1]), int(sys.argv[2])
    cluster, flavour, command = Cluster.from_json(sys.argv[3]), sys.argv[4], sys.argv[5:]
    try:
        end_with(parent)
        become_root()
        unshare("pid", "mnt", "net", "uts", "ipc")
    except ClusterError as error:
        return _unavailable(report, error)
    outside, still_there = os.pipe()
    hub = os.fork()
    if hub == 0:
        os.close(still_there)
        os._exit(_live(outside, report, cluster, flavour, command))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os.kill(hub, number))
    _, status = os.waitpid(hub, 0)
    return os.waitstatus_to_exitcode(status) % 256


def _live(outside: int, report: int, cluster: Cluster, flavour: str, command: list[str]) -> int:
    """As process 1, build the cluster, run the job, and report. Return the job's exit status."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    end_with(0)
    if select.select([outside], [], [], 0)[0]:  # the outer process ended before we asked
        return 1
    try:
        holders, network = _build(cluster)
    except ClusterError as error:
        return _unavailable(report, error)
    before = [bytes_of(holder) for holder in holders]
    started = time.monotonic()
    status = _run(flavour, command, holders, network, cluster)
    seconds = time.monotonic() - started
    moved = [[b - a for a, b in zip(old, bytes_of(holder))] for old, holder in zip(before, holders)]
    accounts = [account_of(holder) for holder in holders]
    found = {"seconds": seconds, "machine_bytes": moved, "training": accounts if all(accounts) else []}
    os.write(report, json.dumps(found).encode())
    return status


def _build(cluster: Cluster) -> tuple[list[int], ClusterNetwork]:
    """Return the processes that hold the machines, and the network between them."""
    mount("none", "/", "", "recursive", "private")  # so that our mounts are not visible outside
    mount("proc", "/proc", "proc")
    mount("hub", "/dev/shm", "tmpfs", "nosuid", "nodev")
    socket.sethostname("hub")
    network, holders = ClusterNetwork(), []
    for machine, rate in enumerate(cluster.rates):
        holders.append(hold(machine, cluster.machines))
        network.connect(holders[-1], rate, bool(cluster.links))
    for a, b, there, back in cluster.links:
        network.join(a, b, holders[b], there, back)
    return holders, network


def _run(flavour: str, command: list[str], holders: list[int], network: ClusterNetwork, cluster: Cluster) -> int:
    """Run mpirun on the machines, with the events, and return its exit status."""
    names = [machine_name(machine) for machine in range(cluster.machines)]
    os.environ[HOLDERS] = " ".join(f"{name}={holder}" for name, holder in zip(names, holders))
    options = (_options_of_open_mpi if flavour == "openmpi" else _options_of_mpich)(names, cluster.ranks_per_machine)
    job = subprocess.Popen([command[0], *options, *command[1:]])
    started = time.monotonic()
    try:
        for event in sorted(cluster.events, key=lambda event: event.seconds):
            try:
                return job.wait(max(0.0, started + event.seconds - time.monotonic())) % 256
            except subprocess.TimeoutExpired:
                network.set_rate(event.machine, event.rate) if event.rate else network.cut(event.machine)
        return job.wait() % 256
    finally:
        job.terminate()  # does nothing to a job that has ended
        try:
            job.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            job.kill()


def _options_of_mpich(names, ranks: int) -> list[str]:
    hosts, launcher = Path("/dev/shm/hosts"), Path("/dev/shm/launcher")
    hosts.write_text("".join(f"{name}:{ranks}\n" for name in names))
    launcher.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m {LAUNCHER} \"$@\"\n")
    launcher.chmod(0o700)
    return ["-f", str(hosts), "-launcher", "rsh", "-launcher-exec", str(launcher), "-iface", SERVICE_BRIDGE]


def _options_of_open_mpi(names, ranks: int) -> list[str]:
    """Return Open MPI's options. Its daemons look for the launcher on their machines, so it is no file of the hub."""
    hosts = Path("/dev/shm/hosts")
    hosts.write_text("".join(f"{name} slots={ranks}\n" for name in names))
    return ["--hostfile", str(hosts), "--map-by", f"ppr:{ranks}:node:oversubscribe", "--prtemca", "plm_ssh_agent",
            f"{sys.executable} -m {LAUNCHER}", "--prtemca", "prte_if_include", SERVICE_NETWORK]


def _unavailable(report: int, error: ClusterError) -> int:
    os.write(report, json.dumps({"missing": str(error)}).encode())
    return UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
