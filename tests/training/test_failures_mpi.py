"""No silent failure, no hang (docs/design.md, I5): what one rank finds wrong ends all with one message."""

import re
import shutil
from contextlib import contextmanager
from itertools import product

import numpy as np
import pytest
from toys import WAYS, Lying, Script, Scripted, Toy, last, make_options, named, raising, refusal, toy_data

from refimpl.gradients import leaves_of
from refimpl.training.options import Options
from refimpl.training.session import train
from refimpl.training.trainer import Trainer

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]
several = pytest.mark.mpi(min_size=2)

OPTIONS = make_options("toy", "adam")


PARTS = {"rows_needed": "needs", "loss_and_gradients": "after", "evaluate": "evaluation"}
PLACE = r" \(toys.py:\d+, in fault\)"


def refused(comm, model=None, data=None, **more):
    """Return the message of a training; without more, of a toy's."""
    return refusal(comm, lambda: train(model or Toy(), data or toy_data(), toy_data(),
                                       **{"options": OPTIONS, "comm": comm, **more}))


def spoilt(comm, where, fault):
    """Return the message of a training in which what the last rank's model returns from ``where`` goes wrong."""
    return refused(comm, Lying(last(comm), **{PARTS[where]: lambda model, batch, result: fault(result)}))


@pytest.mark.parametrize("where", PARTS)
@pytest.mark.parametrize("error, words", [(ValueError("the cat is on the keys"), "the cat is on the keys"),
                                          (KeyError("cat"), "KeyError: 'cat'"),
                                          (ArithmeticError(), "ArithmeticError"),
                                          (SystemExit(0), "sys.exit(0) was called in the middle of the training")])
@pytest.mark.thorough("error1")
def test_an_exception_on_one_rank(comm, where, error, words):
    said = spoilt(comm, where, raising(error))
    assert said.startswith(named(comm) + words)
    assert isinstance(error, SystemExit) or re.search(f"{PLACE}$", said)


@several
@pytest.mark.parametrize("error, words", [(KeyboardInterrupt(), "KeyboardInterrupt"), (SystemExit(3), "sys.exit(3)")])
def test_a_model_that_leaves(comm, error, words):
    assert spoilt(comm, "loss_and_gradients", raising(error)).startswith(named(comm) + words)


def on_the_last(comm, error):
    """Return what raises the error on the last rank only, when it is called for the third time."""
    calls = []

    def fault(*_):
        calls.append(None)
        if last(comm) and len(calls) == 3:
            raise error
    return fault


@pytest.mark.parametrize("error, words", [(KeyError("cat"), "KeyError: 'cat'"), (SystemExit(0), "sys.exit(0)")])
def test_a_watch_that_raises(comm, error, words):
    """Nobody can agree on it: where the others wait, they hear of it."""
    private, fault = comm.Dup(), on_the_last(comm, error)  # messages may stay under way

    @contextmanager
    def watch(trainer):
        fault()
        yield
        fault()

    assert refused(private, watch=watch).startswith(named(comm) + words)


def test_examples_that_raise(comm):
    private, fault, data = comm.Dup(), on_the_last(comm, KeyError("cat")), toy_data()
    examples = data.examples
    data.examples = lambda step: fault() or examples(step)
    assert re.fullmatch(f"{named(comm)}KeyError: 'cat'{PLACE.replace('toys', 'test_failures_mpi')}",
                        refused(private, data=data))


@pytest.mark.parametrize("error, words", [(SystemExit(0), "sys.exit(0) was called"),
                                          (BrokenPipeError("nobody listens"), "nobody listens")])
def test_a_progress_that_fails_on_rank_0(comm, error, words):
    assert words in refused(comm, progress=raising(error))


def test_memory_that_ends_in_a_microbatch(comm):
    said = spoilt(comm, "loss_and_gradients", raising(MemoryError("no room for 8 bytes.")))
    mine = leaves_of(comm.size - 1, comm.size, 8)[0]
    assert said == named(comm) + (f"out of memory for microbatch {mine}: no room for 8 bytes. "
                                  "Reduce --microbatch-size, with more --microbatches")


def test_an_exception_in_data_on_one_rank(comm):
    data = toy_data()
    if last(comm):
        data.microbatch = raising(OSError("the disk is gone"))
    assert refused(comm, data=data).startswith(named(comm) + "the disk is gone")


@pytest.mark.parametrize("way", [*WAYS.values(), *(
    dict(codec={"dense": codec, "sparse": "bf16"}) for codec in ("topk:0.1", "onebit", "powersgd:1", "integers:16"))],
    ids=str)
@pytest.mark.thorough("hot_rows", "integers")
def test_an_exception_however_gradients_travel(comm, way):
    """The rank takes part in the sums with what it has; then all stop, and no message is left under way."""
    for calls in (0, 1, 2):
        left = iter([*[None] * calls, ValueError("the cat")])
        model = Lying(last(comm), before=lambda _: (error := next(left)) is None or raising(error)())
        trainer = Trainer.open(model, toy_data(), make_options("toy", "adam", **way), comm)
        assert refusal(comm, trainer.train_step).startswith(named(comm) + "the cat")
    trainer = Trainer.open(Toy(), toy_data(), make_options("toy", "adam", **way), comm)
    assert np.isfinite(trainer.train_step()["loss"])


@several
def test_two_ranks_with_two_errors_are_both_named(comm):
    model = Lying(comm.rank < 2, before=raising(ValueError(f"the words of rank {comm.rank}")))
    assert re.fullmatch(f"rank 0: the words of rank 0{PLACE}; rank 1: the words of rank 1{PLACE}", refused(comm, model))


def test_finite_gradients_whose_sum_is_not(comm):
    """Each microbatch is finite, their sum overflows float32: found where the norm is formed, told by all."""
    data = Script([[{1: [3e38, 0]}, {1: [3e38, 0]}, {2: [1, 1]}]])
    for architecture, overlap in product(("allreduce", "hybrid", "ps"), (False, True)):
        trainer = Trainer.open(Scripted(), data, Options(architecture=architecture, overlap=overlap), comm)
        with np.errstate(over="ignore"):
            said = refusal(comm, trainer.train_step)
        assert " overflows: it is not finite" in said and (overlap or "gradients of 'rows'" in said)  # the first to come


def test_a_heldout_loss_that_is_not_finite(comm):
    fault = lambda result: {**result, "loss": float("inf")}  # noqa: E731
    assert "finite" in spoilt(comm, "evaluate", fault)


def test_an_unwritable_run_directory(comm, tmp_path):
    path = comm.bcast(tmp_path) / "file"
    if comm.rank == 0:
        path.write_text("in the way")
    comm.Barrier()
    for impossible in (path / "run", "/proc/none/run"):
        message = refused(comm, output=impossible)
        assert f"cannot write to run directory {impossible}" in message and "give another --output" in message
    comm.Barrier()


def test_a_run_directory_that_is_taken_away(comm, tmp_path):
    """What the checkpoint's library raises is no OSError: still every rank ends, with the remedy."""
    path = comm.bcast(tmp_path) / "run"

    message = refused(comm, output=path, progress=lambda record: shutil.rmtree(path), checkpoint_every=1)
    for words in (f"cannot write a checkpoint to {path}", "No such file", "another --output"):
        assert words in message


def test_carried_state_that_no_checkpoint_can_hold(comm, tmp_path):
    model = Lying(before=lambda given: given.batch.state.update(count=7))
    assert "batch.state must hold arrays" in refused(comm, model, output=comm.bcast(tmp_path) / "run")
    comm.Barrier()
