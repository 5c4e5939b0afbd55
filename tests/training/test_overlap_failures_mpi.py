"""A rank that fails while exchanges go on beside its computation: at any moment, all ranks end with one message."""

from itertools import product

import numpy as np
import pytest
from toys import Toy, last, make_options, named, refusal, toy_data

from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]

MOMENTS = ("rows_needed", "before", "rows", "ready 0", "ready 1", "ready 3", "ready all", "loss", "not finite", "names",
           "another")


class Announcing(Toy):
    """A toy that says which gradients are ready, the last variable first; on one rank it fails at a ``moment`` of its
    call number ``count``."""

    def __init__(self, moment="", count=0):
        super().__init__()
        self.moment, self.left = moment, count

    def at(self, moment):
        return moment == self.moment and self.left == 0

    def fail(self, moment):
        if self.at(moment):
            raise ValueError(f"failed at {moment}")

    def rows_needed(self, batch):
        self.fail("rows_needed")
        return super().rows_needed(batch)

    def loss_and_gradients(self, dense, rows, batch):
        self.fail("before")
        rows = dict(rows)
        self.fail("rows")
        loss, gradients = super().loss_and_gradients(dense, rows, batch)
        announced = {}
        for number, variable in enumerate(reversed(self.variables)):
            self.fail(f"ready {number}")
            announced[variable.name] = gradients[variable.name]
            if self.at("not finite") and variable.name == "weight":
                announced["weight"][0, 0] = np.nan
            if not self.at("names") or variable.name != "table":
                batch.ready(announced)
        self.fail("ready all")
        if self.at("another"):
            announced["bias"] = announced["bias"].copy()
        if self.at("names"):
            del announced["table"]
        loss = float("inf") if self.at("loss") else loss
        self.left -= 1
        return loss, announced


WORDS = {"loss": "the loss of microbatch ", "not finite": "the gradient of 'weight' in microbatch ",
         "names": "['table']", "another": " was ready, then another one was returned"}


def trainer_of(comm, model, overlap=True, each=1, **settings):
    options = make_options("toy", "adam", overlap=overlap, **settings)
    machines = in_blocks(comm.size, min(each, comm.size))
    return Trainer.open(model, toy_data(), options, Communicator(comm, machines, timeout=20))


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch):
    """Also rounds of one partition: then more messages are under way at once."""
    monkeypatch.setattr("refimpl.plan.buckets.BUCKET", 1)
    monkeypatch.setattr("refimpl.server.rounds.ROUND", 1)


def fails(comm, work, words):
    message = refusal(comm, work)
    assert message.startswith(named(comm)) and words in message


@pytest.mark.parametrize("moment, architecture", [
    *((moment, "hybrid") for moment in MOMENTS),  # which has what the others have
    *product(("ready 1", "names", "not finite"), ("ps", "allreduce"))])
@pytest.mark.thorough("ready 1-hybrid", "names-ps")
def test_a_computation_that_fails(comm, moment, architecture):
    """In the rank's first microbatch, a later one, or a later step's."""
    counts = {"ready 1": (0, 1, 9), "rows_needed": (0,)}.get(moment, (1,)) if architecture == "hybrid" else (9,)
    for count, overlap in product(counts, (True, None)):  # by a thread, and early without one
        trainer = trainer_of(comm, Announcing(moment if last(comm) else "", count), overlap, architecture=architecture)

        def steps(trainer=trainer):
            for _ in range(11):
                trainer.train_step()

        fails(comm, steps, WORDS.get(moment, f"failed at {moment}"))
        fresh = trainer_of(comm, Announcing(), overlap)
        assert np.isfinite(fresh.train_step()["loss"])  # no message is left under way


@pytest.mark.parametrize("each, overlap", [(1, True), (1, None), (2, False)])
@pytest.mark.parametrize("architecture, names, method", [
    ("hybrid", ("table", "weight", "bias"), "push"), ("ps", ("table", "weight"), "push"),
    ("ps", ("table", "weight"), "pulling"), ("allreduce", ("table", "mean"), "push")])
@pytest.mark.thorough("hybrid-names0-push-1", "pulling-2-False")
def test_an_exchange_that_fails(comm, architecture, names, method, each, overlap):
    """In the middle of it nobody can agree on anything: the rank tells the others, who wait for it."""
    for name in names:
        private = comm.Dup()  # messages may stay under way
        trainer = trainer_of(private, Announcing(), overlap, each, architecture=architecture)
        trainer.train_step()
        if last(comm):
            exchange = trainer.parameters.exchange_of[name]

            def broken(*arguments):
                raise KeyError("the cable")

            setattr(exchange, method, broken)
        fails(comm, trainer.train_step, "KeyError: 'the cable'")


@pytest.mark.ranks(3)
def test_early_an_error_in_the_middle_of_a_sum(comm):
    """Its next message is never sent, as when a signal comes there: nobody waits for that message."""
    trainer = trainer_of(comm.Dup(), Announcing(), None, device="cpu")
    if last(comm):
        exchange = trainer.parameters.exchange_of["weight"]

        def stopped():
            exchange.allreduce.under_way.under_way.clear()
            raise KeyError("the cable")

        exchange.advance = stopped
    fails(comm, trainer.train_step, "KeyError: 'the cable'")


def test_the_update_that_fails(comm, monkeypatch):
    trainer = trainer_of(comm.Dup(), Announcing())
    if last(comm):
        def broken(*arguments):
            raise MemoryError("no room")
        monkeypatch.setattr(trainer.consistency, "update", broken)

    def steps():
        for _ in range(2):
            trainer.train_step()

    fails(comm, steps, "out of memory for the exchange and update of a step: no room Reduce --microbatch-size")
