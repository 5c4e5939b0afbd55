"""The network card of this machine of the cluster: the bytes that it has sent and received, counted by the kernel."""

import os
from pathlib import Path
from typing import TypedDict

from refimpl.experiments.cluster.description import CARD
from refimpl.experiments.cluster.namespaces import ClusterError

MACHINE = "REFIMPL_CLUSTER_MACHINE"  # number of the machine that a process runs on; set by the launcher
ACCOUNT = "/dev/shm/account.json"  # a machine's first rank writes the account of a training here


class Filed(TypedDict):
    """The account in that file: (sent, received) bytes over ``steps`` steps; see ``account``."""

    steps: int
    card: list[int]
    payload: list[int]
    formula_steps: int
    formula_payload: list[int]
    formula: list[int]


def on_cluster() -> bool:
    """Return True if this process runs on a machine of the emulated cluster. Local."""
    return MACHINE in os.environ


def card_bytes() -> tuple[int, int] | None:
    """Return (sent, received) bytes of this machine's card, headers included; None outside the cluster. Local."""
    return parse_counters(Path("/proc/self/net/dev").read_text()) if on_cluster() else None


def parse_counters(text: str) -> tuple[int, int]:
    """Return the bytes (sent, received) of the measured card in the text of /proc/net/dev."""
    for line in text.splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == CARD:
            fields = counts.split()
            return int(fields[8]), int(fields[0])
    raise ClusterError(f"/proc/net/dev counts no card {CARD}: is this a machine of the emulated cluster?")
