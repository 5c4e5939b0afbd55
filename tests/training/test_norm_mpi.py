"""The norm for clipping and the held-out sums: one number, however many ranks hold the parts."""

import math

import numpy as np
import pytest
from mpi4py import MPI
from toys import BY_ROWS, WORKS, Script, Scripted, make_options, make_trainer

from kernels.reductions import definition
from models import Variable
from refimpl.gradients import leaves_of
from refimpl.server import ReducedGradient, Shard
from refimpl.training.evaluate import evaluate
from refimpl.training.step.update import clip_scale
from refimpl.training.options import Options
from refimpl.training.step.scalars import Scalars
from refimpl.training.trainer import Trainer

pytestmark = pytest.mark.ranks(3)


def reduced(variable, gradient, ids=None, counts=True):
    return ReducedGradient(Shard(variable, None), ids, gradient, counts)


def norm(pieces):
    scalars = Scalars()
    scalars.add(pieces)
    found = scalars.read([])
    assert found.error is None
    if found.overflow:
        raise found.overflow
    return math.sqrt(found.squares.value())


def test_the_norm_is_the_root_of_the_exact_sum_of_rows():
    rng = np.random.default_rng(0)
    dense, rows = rng.standard_normal((33, 70)).astype("f"), (rng.standard_normal((50, 9)) * 1e-18).astype("f")
    scalar, vector = np.float32(1e15), rng.standard_normal(11).astype("f")
    pieces = [reduced(Variable("a", (33, 70)), dense), reduced(Variable("s", (99, 9), sparse=True), rows, np.arange(50)),
              reduced(Variable("c", ()), np.asarray(scalar)), reduced(Variable("b", (11,)), vector)]
    each = [*definition.sum_of_squares_per_row(dense), *definition.sum_of_squares_per_row(rows), float(scalar) ** 2,
            *(vector.astype(float) ** 2)]
    assert norm(pieces) == math.sqrt(math.fsum(each))


def test_what_does_not_count():
    """Other ranks' copies, statistics, variables that are not clipped, and arrays without elements."""
    one = np.ones((2, 2), np.float32)
    pieces = [reduced(Variable("a", (2, 2)), one), reduced(Variable("b", (2, 2)), one, counts=False),
              reduced(Variable("c", (2, 2), statistic=True), one), reduced(Variable("d", (2, 2), clipped=False), one),
              reduced(Variable("e", (0, 2)), one[:0]), reduced(Variable("s", (9, 2), sparse=True), one[:0], np.arange(0))]
    assert norm(pieces) == 2.0
    assert norm([]) == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_norm_of_what_is_not_finite_is_refused(bad):
    with pytest.raises(ValueError, match="finite"):
        norm([reduced(Variable("a", (2,)), np.array([1, bad], np.float32))])


def test_squares_that_overflow_are_told_where_all_ranks_agree():
    """Not while sums come: there the other ranks may be in the middle of an exchange."""
    scalars = Scalars()
    scalars.add([reduced(Variable("a", (2,), dtype="float64"), np.array([1e200, 0.0]))])
    with pytest.raises(ValueError, match="sum of squares.* not finite"):
        raise scalars.read([]).overflow


def test_clip_scale():
    assert clip_scale(5.0, None) == 1.0 and clip_scale(5.0, 10.0) == 1.0 and clip_scale(0.0, 1.0) == 1.0
    assert clip_scale(5.0, 5.0) == 1.0 and clip_scale(8.0, 2.0) == 0.25


@pytest.mark.mpi
@pytest.mark.parametrize("options", BY_ROWS, ids=str)
def test_every_element_counts_once_on_every_options(comm, options):
    """Powers of two with room between their squares: the digits of the squared norm say what was counted how often."""
    data = Script([[{row: [2.0**row, 0.0]} for row in range(8)]])
    trainer = Trainer.open(Scripted(), data, Options(**options), comm)
    norm = trainer.train_step()["gradient_norm"]
    rows, dense = sum(4.0**row for row in range(8)), float(sum(2.0**row for row in range(8))) ** 2
    assert norm == math.sqrt(rows + dense)


@pytest.mark.mpi
@pytest.mark.parametrize("options", BY_ROWS, ids=str)
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.thorough("cnn-{'architecture': 'hybrid'", "toy")
def test_evaluation_does_not_depend_on_the_ranks(comm, work, options):
    _, data, _ = WORKS[work]
    results = []
    for ranks in (comm, MPI.COMM_SELF):
        trainer = make_trainer(work, "adam", ranks, **options)
        trainer.train_step()
        results.append([evaluate(trainer, data(count), steps) for count, steps in ((8, None), (8, 1), (3, 1))])
    assert results[0] == results[1]
    everything = results[0][0]
    assert everything["count"] == {"toy": 28, "lm": 117, "cnn": 27, "nmt": 83, "vgg": 27}[work]
    assert set(everything) == {"loss", "count", "accuracy" if work in ("cnn", "vgg") else "perplexity"}
    assert comm.allgather(everything) == [everything] * comm.size


@pytest.mark.mpi
def test_evaluation_is_the_mean_over_the_heldout_examples(comm):
    """By hand: each microbatch evaluated on whole values, carried state and all; correctly rounded sums."""
    model, data, _ = WORKS["lm"]
    trainer = make_trainer("lm", "adam", comm)
    trainer.train_step()
    values = {v.name: trainer.parameters.collect(v.name, None, True)
              for v in trainer.model.variables}
    losses, held = [], data()
    for v in leaves_of(0, 1, 8):
        state = {}
        for step in range(held.steps_per_epoch):
            if (batch := held.microbatch(step, v)) is not None:
                batch.state = state
                losses.append(model().evaluate(values, values, batch)["loss"])
    found = evaluate(trainer, held)
    assert found["loss"] == math.fsum(losses) / 117 and found["perplexity"] == math.exp(found["loss"])


@pytest.mark.mpi
def test_evaluation_of_nothing(comm):
    trainer = make_trainer("toy", "adam", comm)
    found = evaluate(trainer, WORKS["toy"][1](), steps=0)
    assert found["count"] == 0 and math.isnan(found["loss"])


@pytest.mark.mpi
def test_metrics_of_a_step(comm):
    trainer = Trainer.open(WORKS["toy"][0](), WORKS["toy"][1](), make_options("toy", "adam"), comm)
    first, second = trainer.train_step(), trainer.train_step()
    assert (first["step"], first["examples"]) == (1, 24) and (second["step"], second["examples"]) == (2, 4)
    assert first["learning_rate"] == 0.005 and second["learning_rate"] == 0.01  # warm-up over two steps
    phases = {"data", "wait", "pull", "compute", "push", "allreduce", "norm", "update"}
    assert phases == set(second["seconds"]) - {"waiting for device"}
