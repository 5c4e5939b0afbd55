"""The model of lesson 7, as it stands there, computes on a device what it computes on the CPU."""

import json
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from refimpl import Examples, Options, train

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "7_your_own_model.ipynb"


@pytest.fixture(scope="module")
def which_play():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    (source,) = ("".join(cell["source"]) for cell in cells if cell["id"] == "model")
    names: dict = {}
    exec(source.removeprefix("%%everywhere\n"), names)
    return names["WhichPlay"]


def test_a_training_on_the_device_is_that_on_the_cpu_but_for_rounding(which_play, cupy):
    random = np.random.default_rng(0)
    passages, kinds = random.integers(0, 50, (24, 8)), random.integers(0, 3, 24)
    found = {}
    for device in ("cpu", "cuda"):
        data = Examples(passages, kinds, microbatches=2, size=5)
        options = Options(steps=3, optimizer="adam", learning_rate=0.05, device=device)
        found[device] = train(which_play(50), data, data, options=options, comm=MPI.COMM_SELF)
    assert found["cuda"].loss == pytest.approx(found["cpu"].loss, rel=1e-5)
    assert found["cuda"].evaluation["accuracy"] == found["cpu"].evaluation["accuracy"]
