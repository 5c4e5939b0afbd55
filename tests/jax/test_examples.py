"""docs/examples/jax_lm.py learns."""

import importlib.util
from pathlib import Path

from mpi4py import MPI

PATH = Path(__file__).parents[2] / "docs" / "examples" / "jax_lm.py"


def test_the_example_learns():
    spec = importlib.util.spec_from_file_location("jax_lm", PATH)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.WIDTH, example.SAMPLES = 8, 20
    data = example.text(256, 5, 90)
    losses = [example.main(steps, data, 90, MPI.COMM_SELF).loss for steps in (1, 40)]
    assert losses[1] < 0.9 * losses[0]
