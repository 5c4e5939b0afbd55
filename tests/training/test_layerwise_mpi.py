"""Large batches: LARS and LAMB have one answer wherever a variable lies, that of the plain file; bytes, refusals."""

import numpy as np
import pytest
from mpi4py import MPI
from toys import OF_DENSE, WAYS, answer, make_trainer, plain_answer, refusal, whole_state

from kernels.exact_sum import DIGITS
from kernels.update.rates import rate_of
from refimpl.plan.cost import SAID, norm
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]

FEW = {"lars": {"trust": 0.25}, "lamb": {"beta1": 0.5}}


@pytest.mark.parametrize("optimizer", FEW)
@pytest.mark.parametrize("work", ["toy", "lm", "cnn"])
@pytest.mark.thorough("toy-lars")
def test_one_answer_by_every_way(comm, work, optimizer):
    told = dict(optimizer_options=FEW[optimizer], average_sparse=work != "toy")
    expected = plain_answer(MPI.COMM_SELF, work, optimizer, told)
    for way in OF_DENSE if work == "cnn" else WAYS:
        assert answer(work, optimizer, comm, **told, **WAYS[way]) == expected, way
    on_machines = Communicator(comm, in_blocks(comm.size, 2))
    assert answer(work, optimizer, on_machines, **told, architecture="hybrid", allreduce="hierarchical") == expected


@pytest.mark.parametrize("optimizer", FEW)
@pytest.mark.thorough("lamb")
def test_the_norms_take_as_many_bytes_as_the_formula(comm, optimizer):
    for each in (1, 2):
        trainer = make_trainer("toy", optimizer, Communicator(comm, in_blocks(comm.size, each)))
        trainer.train_step()
        key, ledger = ("norm", "", "control"), trainer.comm.ledger
        adapted = sum(v.decays and not v.statistic for v in trainer.model.variables)
        of_step, of_layers = 2 * DIGITS + SAID, 2 * DIGITS * adapted + 1  # numbers that each message has
        matrix = norm(trainer.plan)[key] // of_step * (of_step + of_layers)
        assert ledger.total(phase="norm") == matrix[comm.rank].sum()
        assert ledger.total("received", phase="norm") == matrix[:, comm.rank].sum()


@pytest.mark.parametrize("optimizer", FEW)
def test_a_step_is_as_long_as_its_variable_says(comm, optimizer):
    """The rate is the part of a variable's norm by which it moves, however large its gradient is."""
    plain = dict(clip_norm=None, weight_decay=0.0, optimizer_options={"trust": 0.25} if optimizer == "lars" else {})
    trainer = make_trainer("toy", optimizer, comm, **plain)
    before, rate = whole_state(trainer), trainer.train_step()["learning_rate"]
    after, weight, bias = whole_state(trainer), ("weight", None), ("bias", None)
    moved, trust = np.linalg.norm(after[weight] - before[weight]), 0.25 if optimizer == "lars" else 1
    assert moved == pytest.approx(rate * np.linalg.norm(before[weight]) * trust, rel=1e-5)
    assert not before[bias].any() and after[bias].any()  # of norm 0, and not adapted


@pytest.mark.mpi(min_size=2)
def test_a_norm_that_is_not_finite_ends_all_ranks(comm):
    trainer = make_trainer("toy", "lars", comm, architecture="ps")
    shard = trainer.parameters.exchange_of["table"].shards["table"]
    if comm.rank == 0:
        shard.state["velocity"][...], trainer.consistency.before_update = 0, lambda _: shard.values.fill(np.inf)
    assert "the norm of a variable, or of its step, is not finite" in refusal(comm, trainer.train_step)


def test_linear_scaling_multiplies_the_rate(comm):
    scaled = answer("toy", "sgd", comm, learning_rate=0.25, scale_rate=2)  # of 8 microbatches
    assert scaled == answer("toy", "sgd", comm, learning_rate=1.0)


@pytest.mark.ranks(1)
def test_one_cycle_rises_falls_and_ends_low():
    values = [rate_of(step, base=2.0, rate="one-cycle", warmup=0, steps=100) for step in range(101)]
    assert values[0] == 0.2 and values[45] == 2.0 and values[90] == pytest.approx(0.2) and max(values) == 2.0
    assert values[:46] == sorted(values[:46]) and values[45:] == sorted(values[45:], reverse=True)
    assert values[-1] == pytest.approx(0.002)
