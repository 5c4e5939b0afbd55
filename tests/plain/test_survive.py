"""Ranks kill themselves, and the others end with the bits of a training in which nobody dies. Open MPI alone can this.

    make test-survive
"""

import re
from pathlib import Path

import pytest

from refimpl.transport.launch import launch, runtime

pytestmark = pytest.mark.skipif(runtime().flavour != "openmpi", reason="needs an MPI that outlives its ranks: Open MPI")
STEPS = 4


def hashes(ranks, *kills):
    """Return (exit status, the hashes that the surviving ranks print, all that was printed)."""
    job = launch(ranks, ["-m", "refimpl.plain.training.survive", "lm", "--steps", str(STEPS), "--kill", *kills], timeout=120,
                 capture=True, cwd=Path(__file__).parents[2], survive=True)
    return job.returncode, re.findall(r"sha256 (\w+)", job.stdout), job.stdout + job.stderr


@pytest.fixture(scope="module")
def undisturbed():
    """The hash of the hybrid on one rank, to which nothing happens."""
    job = launch(1, ["-m", "refimpl.plain.training.hybrid", "lm", "--steps", str(STEPS)], timeout=120, capture=True,
                 cwd=Path(__file__).parents[2])
    return re.search(r"sha256 (\w+)", job.stdout)[1]


@pytest.mark.parametrize("ranks, kills, survivors", [
    (4, [], 4),
    (4, ["2@3@0.05"], 3),  # while it computes, or sends
    (4, ["0@1@0", "2@1@0.01"], 2),  # two in one step, the first rank among them
    (3, ["0@2@0", "1@3@0.1"], 1),  # one after another, down to one
], ids=["nobody", "one", "two at once", "down to one"])
def test_survivors_have_the_undisturbed_bits(undisturbed, ranks, kills, survivors):
    status, found, printed = hashes(ranks, *kills)
    assert (status, found) == (0, [undisturbed] * survivors), printed


def test_rows_that_nobody_has_any_more_end_the_training():
    status, found, printed = hashes(4, "1@2@0", "2@2@0")
    assert status and not found and "A rank and its partner died together: their rows are lost." in printed
