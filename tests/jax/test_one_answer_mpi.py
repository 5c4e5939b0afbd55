"""One answer, to the bit, of losses in JAX, and of modules of flax and equinox: any number of ranks; after a resume."""

from functools import cache

import jax
import numpy as np
import pytest
from framework_toys import hold_that_no_rank_has_it_whole, text_of
from jax_modules import INSTALLED, data_of as texts, model_of as module_of
from mpi4py import MPI
from toy_losses import ROWS, WIDTH, data_of, ready

from models import Uniform
from refimpl.jax import JaxModel
from refimpl.plain.training.hybrid import Hybrid, Options as PlainOptions
from refimpl.training.options import Options
from refimpl.training.session import train

CASES = {"rated": "adam", "text": "adagrad"}
SETTINGS = {"rated": dict(overlap=True), "text": dict(architecture="ps", partitions=3)}
"""One each: a model cannot tell which way its gradients travel."""

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]


def training_data(name, **options):
    return text_of() if name == "text" else texts(**options) if name in INSTALLED else data_of(**options)


def model_of(name):
    return module_of(name) if name in INSTALLED else ready(name)


def options_of(name, steps, **changes):
    return Options(optimizer=CASES.get(name, "adamw"), learning_rate=0.05, steps=steps, clip_norm=0.5,
                   weight_decay=0.01, rate="cosine", rate_steps=9, **changes)


def answer(name, comm, steps=4, **changes):
    """Train over an epoch of three steps and into the next; return all that must be the same."""
    result = train(model_of(name), training_data(name), training_data(name, shuffle=False), comm=comm,
                   options=options_of(name, steps, **changes))
    return result.loss, result.evaluation, result.parameters_sha256, result.state_sha256


@pytest.fixture(scope="module")
def one_rank(world):
    """Return function(name) -> the answer of one rank. Collective: rank 0 computes it."""
    return cache(lambda name: world.bcast(answer(name, MPI.COMM_SELF) if world.rank == 0 else None))


@pytest.mark.ranks(3)
@pytest.mark.thorough("rated")
@pytest.mark.parametrize("name", [*CASES, *INSTALLED])
def test_several_ranks_give_the_answer_of_one(comm, one_rank, name):
    assert answer(name, comm, **SETTINGS.get(name, SETTINGS["text"])) == one_rank(name)


@pytest.mark.thorough("rated")
@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_ends_as_one_that_was_not_interrupted(comm, one_rank, name, tmp_path):
    folder = comm.bcast(str(tmp_path))
    train(ready(name), training_data(name), options=options_of(name, 3), comm=comm, output=folder)
    result = train(ready(name), training_data(name), options=options_of(name, 4, architecture="ps"), comm=comm,
                   output=folder, resume=folder)
    assert (result.parameters_sha256, result.state_sha256) == one_rank(name)[2:]
    learned = ready(name).load(folder)
    first = {v.name: v.initial_value(0) for v in ready(name).variables}
    assert jax.tree.structure(learned) == ready(name).parts.structure and learned["out"].shape == first["out"].shape
    assert not np.array_equal(learned["out"], first["out"])


def test_the_plain_system_trains_a_loss_to_the_same_bits(comm):
    """What ``refimpl.plain`` asks of a model, JaxModel has: it needs no plain version of its own."""
    plain = Hybrid(ready("rated"), data_of(), PlainOptions("adagrad", 0.2), comm)
    for _ in range(3):
        plain.step()
    fast = train(ready("rated"), data_of(), options=Options(steps=3), comm=comm).parameters_sha256
    assert comm.bcast(plain.sha256()) == fast


@pytest.mark.thorough
def test_a_table_without_values_is_never_whole_on_a_rank(comm):
    """No rank may hold it, nor makes it: rows start where they are kept, and are pulled where they are looked up."""
    rows = 20_000
    model = JaxModel(lambda params, batch: (params["table"][batch.inputs[:, 0].astype(int) * 499] ** 2).sum(),
                     {"table": jax.ShapeDtypeStruct((rows, WIDTH), "float32")}, initial={"table": Uniform(0.1)},
                     rows={"table": lambda batch: batch.inputs[:, 0].astype(int) * 499})

    def trained(each, **changes):
        options = Options(architecture="ps", optimizer="sgd", steps=2, **changes)
        return train(model, data_of(), options=options, comm=each).parameters_sha256

    assert ROWS * 499 <= rows
    hold_that_no_rank_has_it_whole(comm, trained, rows * WIDTH * 4)
