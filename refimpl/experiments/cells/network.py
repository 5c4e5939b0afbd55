"""The emulated cluster's network, for trainers and predictions."""

import os
from pathlib import Path

from refimpl.collectives.simulation.network import Network
from refimpl.experiments.cluster.description import rates_of
from refimpl.transport.machines import in_blocks

LATENCY, LATENCY_WITHIN = 100e-6, 50e-6
MESSAGE = 3e-6
"""Seconds of a core that one message costs its sender or its receiver."""
MEMORY, REDUCTION = 1e9, 2e9
"""Bytes/s of messages within a machine, and of sums, on a core of one rank alone."""


def emulated_network(machines: int, ranks_per_machine: int, rate) -> Network:
    """Return the network of such a cluster on this machine, where ranks share cores. Local.

    rate: of all cards, or one for each machine.

    It is not measured: 48 processes on two cores would measure each other, not the card.
    """
    ranks = machines * ranks_per_machine
    turns = max(1.0, ranks / (os.cpu_count() or 1))
    speeds = tuple(bits / 8 for bits in rates_of(machines, rate))
    return Network(in_blocks(ranks, ranks_per_machine), LATENCY, speeds, speeds, LATENCY_WITHIN, MEMORY,
                   REDUCTION / turns, MESSAGE * turns)


def network_file(machines: int, ranks_per_machine: int, rate) -> Path:
    """Return the name of the file in which trainers find it."""
    return Path(f"network-{machines}x{ranks_per_machine}-{rate}.json")
