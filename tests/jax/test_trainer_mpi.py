"""A loop of one's own with optax has one answer, to the bit, on any number of ranks; ranks that disagree are told."""

import jax
import numpy as np
import pytest
from mpi4py import MPI
from jax_modules import data_of as texts, model_of as module_of
from toy_losses import data_of, model_of

from refimpl import Options
from refimpl.jax import Trainer
from refimpl.transport import CollectiveError

optax = pytest.importorskip("optax")
pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]
RATE = optax.linear_schedule(0.1, 0.02, 4)
GROUPS = optax.multi_transform({"decay": optax.adamw(RATE, weight_decay=0.1), "lion": optax.lion(0.01)},
                               lambda params: jax.tree.map(lambda p: "decay" if p.ndim > 1 else "lion", params))
ROWS = {"sgd": optax.sgd(0.1), "adam": optax.adam(RATE)}
WAYS = [("sgd", {"partitions": 5, "overlap": True}), ("adam", {"architecture": "allreduce"})]
"""Two: a loop cannot tell which way gradients travel; tests/torch/test_trainer_mpi.py has the others."""


def answer(rows, comm, model, data, steps=5, **settings):
    """Train over an epoch and into the next: groups, schedules, clipping; return all losses, and all bits."""
    trainer = Trainer(model, GROUPS, rows=ROWS[rows], comm=comm, options=Options(clip_norm=0.5, **settings))
    found = []
    while len(found) < steps:
        for batch in trainer.shard(data):
            loss, gradient = trainer.value_and_grad(batch)
            trainer.step(gradient)
            found.append(loss)
    found.append(trainer.evaluate(data))
    state = jax.tree.leaves(trainer.state_dict())
    return found, [np.asarray(leaf).tobytes() for leaf in (*state, *jax.tree.leaves(trainer.gather()))]


@pytest.fixture(scope="module")
def one_rank(shared):
    """rows -> the answer of one rank."""
    return shared(ROWS, lambda rows: answer(rows, MPI.COMM_SELF, model_of("rated"), data_of()))


@pytest.mark.parametrize("rows, way", WAYS)
@pytest.mark.thorough("sgd")
def test_any_number_of_ranks_gives_the_answer_of_one(comm, one_rank, rows, way):
    assert answer(rows, comm, model_of("rated"), data_of(), **way) == one_rank[rows]


def test_other_numbers_are_found(comm, one_rank):
    assert answer("sgd", comm, model_of("rated"), data_of())[1] != one_rank["adam"][1]


@pytest.mark.thorough
def test_a_module_with_statistics_has_one_answer(comm):
    pytest.importorskip("flax")
    each = [answer("adam", one, module_of("linen"), texts()) for one in (MPI.COMM_SELF, comm)]
    assert each[0] == each[1]


@pytest.mark.parametrize("which", [0, 1])
def test_ranks_that_disagree_are_told(comm, which):
    if comm.size == 1:
        pytest.skip("one rank agrees with itself")
    given = [GROUPS, ROWS["sgd"]]
    given[which] = optax.sgd(0.2 if comm.rank == 1 else 0.3)
    with pytest.raises(CollectiveError, match="the ranks disagree: optimizers is"):
        Trainer(model_of("rated"), given[0], rows=given[1], comm=comm).shard(data_of())


def leaves_a_batch_out(trainer, data, last):
    for number, batch in enumerate(trainer.shard(data)):
        if not (last and number == 1):
            trainer.step(trainer.value_and_grad(batch)[1])


def leaves_a_step_out(trainer, data, last):
    for number, batch in enumerate(trainer.shard(data)):
        _, gradient = trainer.value_and_grad(batch)
        trainer.zero_grad() if last and number == 1 else trainer.step(gradient)


def stops_early(trainer, data, last):
    for batch in trainer.shard(data):
        trainer.step(trainer.value_and_grad(batch)[1])
        if last:
            break
    trainer.gather()


def changes_its_gradient(trainer, data, last):
    for batch in trainer.shard(data):
        trainer.step(jax.tree.map(lambda leaf: leaf * (1 + last), trainer.value_and_grad(batch)[1]))
    trainer.gather()


def judges_by_other_data(trainer, data, last):
    trainer.shard(data)
    trainer.evaluate(data_of(size=2 + last))


APART = [(leaves_a_batch_out, r"the number of the batch, and of its loader is \[1, 0\] on rank.*, \[2, 0\] on rank"),
         (leaves_a_step_out, "the number of steps before it is 2 on rank.*, 1 on rank"),
         (stops_early, r"the next call of the loop is value_and_grad\(batch\) on rank.*, gather\(\) on rank"),
         (changes_its_gradient, "the hash of the dense parameters is .* on rank.*, .* on rank"),
         (judges_by_other_data, "data is .* on rank.*, .* on rank")]


@pytest.mark.parametrize("do, said", APART)
def test_ranks_whose_loops_part_are_told(comm, do, said):
    if comm.size == 1:
        pytest.skip("one rank agrees with itself")
    trainer = Trainer(model_of("rated", dense=True), optax.sgd(0.1), comm=comm)
    with pytest.raises(CollectiveError, match=f"the ranks disagree: .*{said}"):
        do(trainer, data_of(), comm.rank == comm.size - 1)
