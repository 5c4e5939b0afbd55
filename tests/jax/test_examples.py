"""docs/examples/jax_lm.py learns."""

import importlib.util
from pathlib import Path

import pytest
from mpi4py import MPI

PATH = Path(__file__).parents[2] / "docs" / "examples" / "jax_lm.py"


@pytest.mark.thorough
def test_the_example_learns():
    spec = importlib.util.spec_from_file_location("jax_lm", PATH)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    records = []
    example.WIDTH, example.SAMPLES, example.tell = 8, 20, records.append
    last = example.main(40, example.text(256, 5, 90), 90, MPI.COMM_SELF).loss
    assert len(records) == 40 and last == records[-1]["loss"] < 0.9 * records[0]["loss"]
