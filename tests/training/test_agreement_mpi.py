"""Ranks that were started differently: every rank ends with one message, which names what differs and who has what."""

from dataclasses import replace

import pytest
from toys import Toy, last, make_options, refusal, toy_data

from refimpl.training.session import train

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]

OPTIONS = make_options("toy", "adam")
BACKWARDS = Toy()
BACKWARDS.variables.reverse()

DISAGREEMENTS = {
    "seed": (dict(options=replace(OPTIONS, seed=1)), "seed is 0"),
    "architecture": (dict(options=replace(OPTIONS, architecture="ps")), "architecture is hybrid"),
    "optimizer option": (dict(options=replace(OPTIONS, optimizer_options={"beta1": 0.8})), "beta1"),
    "data": (dict(data=toy_data(count=29)), "data is "),
    "microbatches": (dict(data=toy_data(7)), "microbatches is 8"),
    "shape": (dict(model=Toy(rows=51)), "variable table is float32 (50, 3)"),
    "order": (dict(model=BACKWARDS), "variables is "),
    "held-out data": (dict(heldout=None), "held-out data is "),
    **{name: ({name: value}, f"{name} is ") for name, value in (
        ("evaluate_every", 3), ("checkpoint_every", 3), ("trace", True), ("output", None))},
}
"""What one rank says otherwise, and the words of the refusal."""


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("what", DISAGREEMENTS)
def test_one_rank_with_another_configuration(comm, what, mpi_tmp_path):
    other, words = DISAGREEMENTS[what]
    usual = dict(model=Toy(), data=toy_data(), heldout=toy_data(), options=OPTIONS, comm=comm, evaluate_every=2,
                 checkpoint_every=2, trace=False, output=mpi_tmp_path / "run")
    message = refusal(comm, lambda: train(**usual | (other if last(comm) else {})))
    assert words in message and f"on rank {comm.size - 1}" in message and "the same command" in message
    assert not (mpi_tmp_path / "run").exists()


def test_facts_that_cannot_be_compared(comm):
    describe = {"model": object()} if last(comm) else {}
    message = refusal(comm, lambda: train(Toy(), toy_data(), options=OPTIONS, comm=comm, describe=describe))
    assert "plain JSON" in message
