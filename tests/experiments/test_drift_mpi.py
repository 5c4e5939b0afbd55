"""Trainings on several numbers of ranks beside the one on a single rank: a ring's drift apart, the tree's do not."""

import numpy as np
import pytest
from mpi4py import MPI

from models import Uniform, Variable
from models.data import Examples
from refimpl.experiments.drift import measure_drift
from refimpl.pictures.sums import draw_drift
from refimpl.training.options import Options

COMM = MPI.COMM_WORLD


class Line:
    """Least squares: dense alone, with numbers that are no powers of two."""

    variables = [Variable("slope", (301,), initial=Uniform(1.0))]

    def rows_needed(self, batch):
        return {}

    def loss_and_gradients(self, dense, rows, batch):
        error = (batch.inputs @ dense["slope"] - batch.targets).astype("float32")
        slope = (2 * error @ batch.inputs / np.float32(batch.normaliser)).astype("float32")
        return float((error**2).sum()) / batch.normaliser, {"slope": slope}


def build():
    random = np.random.default_rng(0)
    inputs, targets = random.standard_normal((64, 301)).astype("float32"), random.standard_normal(64).astype("float32")
    return Line(), Examples(inputs, targets, 8, 2)


@pytest.mark.mpi
@pytest.mark.ranks(3)
@pytest.mark.parametrize("allreduce", ["ring", "direct"])
def test_only_what_the_ring_adds_drifts(allreduce):
    numbers = tuple(range(1, COMM.size + 1))
    options = Options(steps=3, allreduce=allreduce, optimizer="sgd", learning_rate=1e-3)
    found = measure_drift(build, options, COMM, numbers)
    assert bool(found) == (COMM.rank == 0)
    for drift in found:
        apart = allreduce == "ring" and drift["ranks"] > 2
        assert all((part > 0) == (largest > 0) == apart for part, largest in zip(drift["changed"], drift["largest"]))
    with pytest.raises(ValueError, match="there are 1 to"):
        measure_drift(build, Options(), COMM, (COMM.size + 1,))


def test_the_picture_tells_the_last_step():
    drawn = draw_drift({"ring": [{"ranks": 3, "changed": [0.01, 0.5], "largest": [1e-8, 1e-7]}]})
    assert drawn.alt.startswith("After 2 steps, parameters with other bits than on 1 rank: ring on 3 ranks 50.0%")
