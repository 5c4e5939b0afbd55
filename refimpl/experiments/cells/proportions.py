"""From the paper's cluster to ours: sizes, network, and the slowdown of a replay that keeps the proportions.

    computation on a GPU                 replayed computation
    ------------------------------   =   ------------------------------------
    dense bytes / network of paper       our dense bytes / rate of our cards

Two cores cannot send 100 Gb/s for 48 ranks. So the rate is low, and computation is slowed down by the same factor.
"""

import os

import numpy as np

from models.registry import entries
from models.workload import Workload
from refimpl.collectives.simulation.network import Network
from refimpl.experiments.cluster import parse_rate
from refimpl.experiments.cluster.description import rates_of
from refimpl.transport.machines import in_blocks

TITAN_XP = 12.15e12
LINE_RATE = 100e9
LINE_EFFICIENCY = 0.4
PAPER_BYTES_A_SECOND = LINE_RATE * LINE_EFFICIENCY / 8
"""Assumed of the paper's network: in and out of each machine."""
PAPER = {model: entry.paper for model, entry in entries().items() if entry.paper}
"""The models that the paper measured."""

LATENCY, LATENCY_WITHIN = 100e-6, 50e-6
MESSAGE = 3e-6
"""Seconds of a core that one message costs its sender or its receiver."""
MEMORY, REDUCTION = 1e9, 2e9
"""Bytes/s of messages within a machine, and of sums, on a core of one rank alone."""

ASSUMPTIONS = (
    "A TITAN Xp, the GPU of the paper, adds and multiplies at most 12.15 TFLOP/s in float32.",
    "Messages reach 40 % of the 100 Gb/s line (TCP over InfiniBand); the line itself would be 2.5 times as fast.",
    *(sentence for paper in PAPER.values() for sentence in paper.assumed),
    "V = ranks: one microbatch a GPU. Ranks of one machine share memory; traffic inside a machine is free.",
    "The naive server is one a machine, as the paper's: its busiest holds 17 % of our small ResNet (ResNet-50: 16 %). "
    "Otherwise every rank is worker and server.",
    "All architectures add in the microbatch tree's order, Horovod's ring does not: the canonical hierarchical "
    "allreduce sends 2.6 x the dense bytes between 8 machines of 6, a ring 1.75 x. It is the same for allreduce, "
    "hybrid and auto.",
)


def computation_seconds(model: str) -> float:
    """Return the assumed seconds of a GPU for one microbatch at the paper's size. Local."""
    paper = PAPER[model]
    return paper.examples * paper.flop / (TITAN_XP * paper.efficiency)


def computation_to_dense(model: str) -> float:
    """Return computation / (time in which the dense bytes would cross a card once), at the paper's size."""
    return computation_seconds(model) / (4 * PAPER[model].dense / PAPER_BYTES_A_SECOND)


def slowdown_of(workload: Workload, rate, measured_seconds: float) -> float:
    """Return the replay's slowdown that keeps the paper's proportion. measured_seconds: of a microbatch, alone."""
    dense = sum(v.nbytes for v in workload.make_model().variables if not v.sparse)
    replayed = computation_to_dense(workload.model) * dense / (parse_rate(rate) / 8)
    return float(f"{replayed / measured_seconds:.3g}")  # rounded: it names a cell


def rows_to_dense(profile, model) -> float:
    """Return (elements of the rows that a worker touches) / (dense elements), from the profile."""
    width = {v.name: v.shape[1] for v in model.variables if v.sparse}
    rows = [sum(width[name] * len(profile.ids(number)) for name, number in entry.gradients.items())
            for row in profile.entries for entry in row]
    return float(np.mean(rows)) / sum(v.size for v in model.variables if not v.sparse)


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
