"""From the paper's cluster to ours: sizes, and how slowly computation must be replayed so that proportions stay.

    computation on a GPU                 replayed computation
    ------------------------------   =   ------------------------------------
    dense bytes / network of paper       our dense bytes / rate of our cards

The LM is the paper's with every width a quarter (projection 512 -> 128), and the LSTM's state, the vocabulary, the
candidates and the words of a microbatch a sixteenth: dense and sparse elements both shrink 64 times, and alpha stays.
Two cores cannot carry 100 Gb/s for 48 ranks, so the rate is low and time runs as much slower: the replay's slowdown.
"""

from dataclasses import dataclass

import numpy as np

from refimpl.experiments.cluster import parse_rate
from refimpl.experiments.parallax.cells.workload import Workload

LM = Workload("lm", "lm", dict(vocabulary=49_592, embedding=128, hidden=128, projection=128, layers=1, samples=512,
                               keep=0.9))
CNN = Workload("cnn", "cnn", dict(width=8, blocks=(3, 4, 6, 3)))
"""ResNet-34's layout at an eighth of its width: the largest variable is 11 % of all, as in ResNet-50 (10 %)."""

TITAN_XP = 12.15e12
LINE_RATE = 100e9
EFFICIENCY = {"lm": 0.3, "cnn": 0.6, "network": 0.4}


@dataclass(frozen=True)
class PaperModel:
    """A model at the paper's size (docs/paper.md, Models): elements, alpha, examples of a GPU, FLOP of an example."""

    dense: int
    sparse: int
    alpha: float
    examples: int
    flop: float

    @property
    def row_elements(self) -> float:
        """Elements of the rows that a worker touches: alpha (dense + sparse) - dense, as dense ones have alpha 1."""
        return self.alpha * (self.dense + self.sparse) - self.dense


PAPER = {
    "lm": PaperModel(9_445_376, 813_306_750, 0.02, 128 * 20, 6 * (9_445_376 + 8192 * 512)),
    "cnn": PaperModel(23_800_000, 0, 1.0, 64, 6 * 4.1e9),
}
"""lm: 2 FLOP an element and word forward, twice that backward, of LSTM and softmax. cnn: ResNet-50."""

ASSUMPTIONS = (
    "A TITAN Xp adds and multiplies at most 12.15 TFLOP/s in float32; the LSTM reaches 30 % of it, convolutions 60 %.",
    "The language model costs 6 FLOP for each dense element and each scored candidate's element of a word; ResNet-50 "
    "6 x 4.1 GFLOP for an image forward and backward; 64 images a GPU.",
    "Messages reach 40 % of the 100 Gb/s line (TCP over InfiniBand); the line itself would be 2.5 times as fast.",
    "alpha of the LM is 0.02 of all elements, dense ones counting 1 (recalled; docs/paper.md, Models): so a worker's "
    "rows are 0.74 of the dense elements.",
    "V = ranks: one microbatch a GPU. Ranks of one machine share memory; traffic inside a machine is free.",
    "The naive server is one a machine, as the paper's: its busiest holds 17 % of the CNN's bytes (ResNet-50: 16 %). "
    "Otherwise every rank is worker and server.",
    "All architectures add in the microbatch tree's order, Horovod's ring does not: the canonical hierarchical "
    "allreduce sends 2.6 x the dense bytes between 8 machines of 6, a ring 1.75 x. It is the same for allreduce, "
    "hybrid and auto.",
)


def computation_seconds(model: str) -> float:
    """Return the assumed seconds of a GPU for one microbatch at the paper's size. Local."""
    paper = PAPER[model]
    return paper.examples * paper.flop / (TITAN_XP * EFFICIENCY[model])


def network_bytes_a_second() -> float:
    """Return the assumed bytes a second of the paper's network, each way of a machine."""
    return LINE_RATE * EFFICIENCY["network"] / 8


def computation_to_dense(model: str) -> float:
    """Return computation / (time in which the dense bytes would cross a card once), at the paper's size."""
    return computation_seconds(model) / (4 * PAPER[model].dense / network_bytes_a_second())


def dense_bytes(workload: Workload) -> int:
    """Return the bytes of a workload's dense variables."""
    return sum(v.nbytes for v in workload.make_model().variables if not v.sparse)


def replayed_seconds(workload: Workload, rate) -> float:
    """Return how long a replayed microbatch of the LM or the CNN should take on cards of such a rate."""
    return computation_to_dense(workload.model) * dense_bytes(workload) / (parse_rate(rate) / 8)


def slowdown_of(workload: Workload, rate, measured_seconds: float) -> float:
    """Return the replay's slowdown that keeps the paper's proportion. measured_seconds: of a microbatch, alone."""
    return float(f"{replayed_seconds(workload, rate) / measured_seconds:.3g}")  # rounded: it names a cell


def rows_to_dense(profile, model) -> float:
    """Return elements of the rows that a worker touches / dense elements, as profiled: beside the paper's."""
    width = {v.name: v.shape[1] for v in model.variables if v.sparse}
    rows = [sum(width[name] * len(profile.ids(number)) for name, number in entry.gradients.items())
            for row in profile.entries for entry in row]
    return float(np.mean(rows)) / sum(v.size for v in model.variables if not v.sparse)
