"""The emulated cluster's network, as trainers and predictions know it."""

import os
from pathlib import Path

from refimpl.collectives.simulation.network import Network
from refimpl.experiments.cluster.description import rates_of
from refimpl.transport.machines import in_blocks

LATENCY, LATENCY_WITHIN = 100e-6, 50e-6
MESSAGE = 3e-6
"""Seconds of a core that one message costs its sender or its receiver."""
MEMORY, REDUCTION = 1e9, 2e9
"""Bytes a second, of messages within a machine and of sums, of a core that one rank has to itself."""


def emulated_network(machines: int, ranks_per_machine: int, rate) -> Network:
    """Return the network of such a cluster on this machine: ranks that share a core wait for each other. Local.

    rate: of all cards, or one for each machine.

    Stated, not measured: 48 processes that take turns on two cores time each other's turns, not the card.
    """
    ranks = machines * ranks_per_machine
    turns = max(1.0, ranks / (os.cpu_count() or 1))
    speeds = tuple(bits / 8 for bits in rates_of(machines, rate))
    return Network(in_blocks(ranks, ranks_per_machine), LATENCY, speeds, speeds, LATENCY_WITHIN, MEMORY,
                   REDUCTION / turns, MESSAGE * turns)


def network_file(machines: int, ranks_per_machine: int, rate) -> Path:
    """Return the name of the file in which trainers find it."""
    return Path(f"network-{machines}x{ranks_per_machine}-{rate}.json")
