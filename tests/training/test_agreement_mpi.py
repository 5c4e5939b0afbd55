"""Ranks that were started differently: every rank ends with one message, which names what differs and who has what."""

from dataclasses import replace

import pytest
from toys import Toy, last, make_options, refusal, toy_data

from refimpl.training.session import train
from refimpl.training.trainer import Trainer

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]
several = pytest.mark.mpi(min_size=2)

OPTIONS = make_options("toy", "adam")

DISAGREEMENTS = {
    "seed": (lambda: (Toy(), toy_data(), replace(OPTIONS, seed=1)), "seed is 0"),
    "architecture": (lambda: (Toy(), toy_data(), replace(OPTIONS, architecture="ps")), 'architecture is hybrid'),
    "optimizer option": (lambda: (Toy(), toy_data(), replace(OPTIONS, optimizer_options={"beta1": 0.8})), "beta1"),
    "data": (lambda: (Toy(), toy_data(count=29), OPTIONS), "data is "),
    "microbatches": (lambda: (Toy(), toy_data(7), OPTIONS), "microbatches is 8"),
    "shape": (lambda: (Toy(rows=51), toy_data(), OPTIONS), "variable table is float32 (50, 3)"),
}


@several
@pytest.mark.parametrize("what", DISAGREEMENTS)
def test_one_rank_with_another_configuration(comm, what):
    other, words = DISAGREEMENTS[what]
    model, data, options = other() if last(comm) else (Toy(), toy_data(), OPTIONS)
    message = refusal(comm, lambda: train(model, data, options=options, comm=comm))
    assert words in message and f"on rank {comm.size - 1}" in message and "the same command" in message


@several
def test_one_rank_with_another_order_of_variables(comm):
    model = Toy()
    if last(comm):
        model.variables.reverse()
    assert "variables is" in refusal(comm, lambda: Trainer.open(model, toy_data(), OPTIONS, comm))


@several
@pytest.mark.parametrize("what", ["evaluate_every", "checkpoint_every", "trace", "output", "held-out data"])
def test_one_rank_that_would_do_something_else_together(comm, what, tmp_path):
    path = comm.bcast(tmp_path)
    usual = dict(output=path / "run", evaluate_every=2, checkpoint_every=2, trace=False)
    other = {**usual, **{"evaluate_every": {what: 3}, "checkpoint_every": {what: 3}, "trace": {what: True},
                         "output": {what: None}, "held-out data": {}}[what]}
    heldout = None if last(comm) and what == "held-out data" else toy_data()
    chosen = other if last(comm) else usual
    message = refusal(comm, lambda: train(Toy(), toy_data(), heldout, options=OPTIONS, comm=comm, **chosen))
    assert f"{what} is " in message and not (path / "run").exists()


def test_facts_that_cannot_be_compared(comm):
    describe = {"model": object()} if last(comm) else {}
    message = refusal(comm, lambda: train(Toy(), toy_data(), options=OPTIONS, comm=comm, describe=describe))
    assert "plain JSON" in message
