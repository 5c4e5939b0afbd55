"""Data and initial values that are others on one rank: every rank ends with the same words."""

from dataclasses import replace

import numpy as np
import pytest
from test_lies_mpi import OVERLAP, refused
from toys import Meddled, Toy, last, named, toy_data

from models import Constant, Uniform

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]


@OVERLAP
@pytest.mark.parametrize("since", [0, 1])
def test_another_normaliser(comm, overlap, since):
    mean = lambda step, index, batch: replace(batch, normaliser=float(len(batch.targets)))  # noqa: E731
    data = Meddled(comm.rank == 0, mean, since=since)  # its microbatches are there in the short step, too
    said = refused(comm, overlap, data=data)
    count = 24 if since == 0 else 4
    assert said.startswith(f"{'rank 0: ' if comm.size > 1 else ''}microbatch 0 of step {since} has normaliser 3.0; its "
                           f"global batch has {count} targets"), said


@OVERLAP
@pytest.mark.parametrize("since", [0, 1])
def test_a_microbatch_left_out(comm, overlap, since):
    """No rank sees by itself what another leaves out: all count together."""
    data = Meddled(comm.rank == 0, lambda step, index, batch: None if index == 0 else batch, since=since)
    said = refused(comm, overlap, data=data)
    assert said.startswith(f"the microbatches of step {since} do not hold the targets") and "rank 0: " in said
    assert "of which 0" in said and f"where examples({since}) says {24 if since == 0 else 4}" in said


@OVERLAP
@pytest.mark.parametrize("since", [0, 1])
def test_ranks_that_normalise_otherwise(comm, overlap, since):
    more = lambda step, index, batch: replace(batch, normaliser=batch.normaliser + 1)  # noqa: E731
    data = Meddled(comm.rank == 0, more, examples=1, since=since)
    said = refused(comm, overlap, data=data)
    assert said.startswith(f"the microbatches of step {since} do not hold the targets") and "rank 0: " in said
    assert f"says {25 if since == 0 else 5}" in said


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("who", [0, -1])
def test_an_epoch_that_starts_on_one_rank(comm, who):
    data, who = toy_data(), who % comm.size
    starts = data.starts_epoch
    data.starts_epoch = lambda step: starts(step) != (comm.rank == who and step == 3)
    said = refused(comm, False, data=data, steps=5)
    others = [str(rank) for rank in range(comm.size) if rank != who]
    told = {starts(3): f"rank{'s' * (len(others) > 1)} {' '.join(others)}", not starts(3): f"rank {who}"}
    assert said == (f"the data's starts_epoch(3) says True on {told[True]} and False on {told[False]}: it must be a "
                    "function of the step alone")


def test_data_that_are_another_each_time(comm):
    buffer, times = np.empty(3, np.int64), iter(range(10**6))

    def same_buffer(step, index, batch):
        buffer[:] = batch.inputs
        return replace(batch, inputs=buffer)

    for meddle, words in [(same_buffer, "batch.inputs of microbatch "),
                          (lambda step, index, batch: replace(batch, targets=batch.targets + next(times)),
                           "has changed between two calls"),
                          (lambda step, index, batch: batch.inputs, "returned ndarray: it must return a Batch")]:
        said = refused(comm, False, data=Meddled(last(comm), meddle), steps=1)
        assert said.startswith(named(comm)) and words in said, said


class Begins(Constant):
    """Initial values that ``make(key, start, count)`` makes."""

    def __init__(self, make):
        super().__init__(0.0)
        object.__setattr__(self, "elements", make)


def noise(key, start, count):
    return np.random.random(count)


@pytest.mark.parametrize("make, words", [
    (noise, "are others when they are asked for again"),
    (lambda key, start, count: np.random.default_rng(5).random(count), "or in parts"),
    (lambda key, start, count: np.ones(3), "cannot be made (ValueError: cannot reshape"),
    (lambda key, start, count: np.full(count, np.nan), "are not finite"),
    (lambda key, start, count: ["a"] * count, "cannot be made"),
], ids=["a global state", "from anywhere", "three", "NaN", "words"])
def test_initial_values_that_depend_on_more(comm, make, words):
    model = Toy()
    if last(comm):
        model.variables[0] = replace(model.variables[0], initial=Begins(make))
    else:
        model.variables[0] = replace(model.variables[0], initial=Begins(Uniform(0.5).elements))
    said = refused(comm, False, model)
    assert said.startswith(f"{named(comm)}the initial values of 'table' ") and words in said, said


@pytest.mark.mpi(min_size=2)
def test_initial_values_that_depend_on_the_rank(comm):
    model = Toy()
    model.variables[1] = replace(model.variables[1], initial=Begins(
        lambda key, start, count: np.full(count, float(last(comm)))))
    said = refused(comm, False, model)
    assert said.startswith("the ranks disagree: the beginning of variable weight is ")
    assert f"on rank {comm.size - 1}" in said
