"""A machine: a process that only holds a network, a host name, shared memory and mounts."""

import contextlib
import os
import signal
import socket
from pathlib import Path

from refimpl.experiments.cluster.card import ACCOUNT, Filed, parse_counters
from refimpl.experiments.cluster.description import address, machine_name
from refimpl.experiments.cluster.namespaces import ClusterError, mount, unshare
from refimpl.json_file import read_json
from refimpl.transport.job.supervisor import end_with

TCP_RETRIES = 6  # TCP gives up a peer that is cut off after about 25 s; with Linux's 15, after a quarter of an hour


def hold(machine: int, machines: int) -> int:
    """Start the process that holds a machine, and return its id. Local; raises what ``_become`` raised there."""
    reader, writer = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child:
        os.close(writer)
        with open(reader) as answer:
            if problem := answer.read():
                raise ClusterError(problem)
        return child
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        end_with(parent)
        _become(machine, machines)
    except BaseException as error:
        os.write(writer, str(error).encode())
        os._exit(1)
    os.close(writer)
    os.close(reader)
    while True:
        signal.pause()


def bytes_of(holder: int) -> tuple[int, int]:
    """Return the bytes (sent, received) of a machine's card since it was made, counted by the kernel."""
    return parse_counters(Path(f"/proc/{holder}/net/dev").read_text())


def account_of(holder: int) -> dict | None:
    """Return the account of the machine's last training; None if there was none."""
    try:
        return read_json(f"/proc/{holder}/root{ACCOUNT}", Filed, what="a training's account", remedy="train again")
    except (FileNotFoundError, ValueError):  # ValueError: the ranks were killed while they wrote it
        return None


def _become(machine: int, machines: int) -> None:
    unshare("net", "uts", "ipc", "mnt")
    socket.sethostname(machine_name(machine))
    mount("machine", "/dev/shm", "tmpfs", "nosuid", "nodev")
    with contextlib.suppress(ClusterError):  # if a sandbox forbids it, the outer /sys stays, and MPI may read its cards
        mount("sysfs", "/sys", "sysfs")
    names = "".join(f"{address(m)} {machine_name(m)}\n" for m in range(machines))
    Path("/dev/shm/hosts").write_text(f"127.0.0.1 localhost\n{names}")
    with contextlib.suppress(ClusterError):  # only a convenience, because MPI uses addresses
        mount("/dev/shm/hosts", "/etc/hosts", "", "bind")
    Path("/proc/sys/net/ipv4/tcp_retries2").write_text(str(TCP_RETRIES))
