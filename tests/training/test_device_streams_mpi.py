"""A rank's two streams on a GPU: nothing is used before it is there, nor given back before it was used.

Where an event is not waited for, the stand-in finds a race: it knows what is ordered, whatever happened first.
"""

import gc
import threading

import pytest
from toys import last, make_trainer, refusal

from refimpl.gradients import RowTree
from refimpl.training.step.background import Background
from refimpl.training.step.overlapped import OverlappedStep
from refimpl.transport import CollectiveError, Communicator

pytestmark = [pytest.mark.mpi(min_size=2), pytest.mark.ranks(3)]

UNORDERED = r"an array float\d\d \(.*\) \(allocated at .*\): .*stream.* not ordered after .*stream"
GIVEN_BACK = r"an array .* is given back to the pool of .*stream.* while .*stream"
EITHER = f"{UNORDERED}|{GIVEN_BACK}"


@pytest.fixture
def standin(cupy):
    if not hasattr(cupy, "standin"):
        pytest.skip("only the stand-in knows what is ordered")
    from cupy import _races
    from cupy.cuda import nccl, queues

    yield queues
    nccl.give_up()
    for thread in threading.enumerate():
        if thread.name in ("exchange", "nccl"):
            thread.join()
    queues.drop_all()
    nccl.fail(0)
    gc.collect()  # what failed may have left its memory in use
    _races._found.clear()


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch):
    monkeypatch.setattr("refimpl.plan.buckets.BUCKET", 1)


def stepped(comm, standin, **settings):
    """Return a trainer that has done a step; in the next one no rank waits for another in the stand-in."""
    private = comm.Dup()  # messages may stay under way
    trainer = make_trainer("toy", "adam", Communicator.of(private, timeout=20), device="cuda", **settings)
    trainer.train_step()
    private.Barrier()
    standin.runs_ahead = True
    return trainer


def released(background, job):
    job.released.wait()


def done(background, job):
    job.done.wait()
    if background.failure is not None:
        raise background.failure
    return job.result


def let_go(step):
    step.__dict__.update(kept=[], pulls={}, pushes={}, dense={})


def without(name, monkeypatch, trainer):
    """Take away one kind of wait from a trainer that has done a step."""
    if name == "gradients before they leave":
        monkeypatch.setattr(Background, "_await", released)
    elif name == "sums before they are used":
        monkeypatch.setattr(Background, "wait", done)
    elif name == "updates before their rows are pulled":
        monkeypatch.setattr(Background, "start", lambda self: self.thread.start())
        monkeypatch.setattr(OverlappedStep, "end", let_go)
    elif name == "what was pulled before it is given back":
        monkeypatch.setattr(OverlappedStep, "end", let_go)
    elif name == "gradients kept until they have left":
        monkeypatch.setattr(RowTree, "held", lambda self: [])
    elif name == "what is sent before it moves":
        monkeypatch.setattr(trainer.comm.device_transport.stream, "wait_event", lambda event: None)
    elif name == "what comes before it is used":
        monkeypatch.setattr("refimpl.transport.device.nccl.NcclPending.wait", lambda self: None)


@pytest.mark.parametrize("name, said", [
    ("gradients before they leave", UNORDERED), ("sums before they are used", EITHER),
    ("updates before their rows are pulled", EITHER), ("what was pulled before it is given back", GIVEN_BACK),
    ("gradients kept until they have left", GIVEN_BACK), ("what is sent before it moves", EITHER),
    ("what comes before it is used", EITHER)])
@pytest.mark.thorough("sums before")
def test_a_wait_that_is_missing_is_found(comm, standin, monkeypatch, name, said):
    trainer = stepped(comm, standin, architecture="hybrid", overlap=True)
    without(name, monkeypatch, trainer)
    with pytest.raises((CollectiveError, AssertionError), match=said):
        for _ in range(2):
            trainer.train_step()
    trainer.comm.mpi.Barrier()


FAILURES = [("table", "pulling", "ps"), ("table", "push", "hybrid"), ("weight", "push", "hybrid"), ("rare", "push", "ps")]


@pytest.mark.parametrize("name, method, architecture, overlap",
                         [(*case, overlap) for case in FAILURES for overlap in (True, False)])
@pytest.mark.thorough("weight-push-hybrid-True")
def test_an_exchange_that_fails_ends_all_ranks(comm, standin, name, method, architecture, overlap):
    """One rank fails in the middle of a step; the others have asked their GPUs for what will never come."""
    trainer = stepped(comm, standin, architecture=architecture, overlap=overlap)
    if last(comm):
        def broken(*arguments):
            raise KeyError("the cable")

        setattr(trainer.parameters.exchange_of[name], method, broken)
    message = refusal(comm, trainer.train_step)
    assert f"rank {comm.size - 1}: KeyError: 'the cable'" in message


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.thorough("True")
def test_what_nccl_meets_in_a_step_ends_all_ranks(comm, standin, overlap):
    from cupy.cuda import nccl

    trainer = stepped(comm, standin, overlap=overlap)
    trainer.comm.device_transport.nccl.send = lambda *message: None  # so that all wait
    if last(comm):
        nccl.fail(6)
    message = refusal(comm, trainer.train_step)
    assert f"rank {comm.size - 1}: " in message and "by NCCL: " in message


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.thorough
def test_a_rank_whose_messages_do_not_come_is_an_error_and_no_hang(comm, standin, overlap):
    trainer = stepped(comm, standin, overlap=overlap)
    trainer.comm.timeout = 1
    if last(comm):
        trainer.comm.device_transport.nccl.send = lambda *message: None
    with pytest.raises((CollectiveError, ConnectionError)) as met:
        trainer.train_step()
    messages = comm.allgather(str(met.value))
    assert any("has waited 1 s for " in message for message in messages)


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.thorough("False")
def test_what_a_step_has_used_is_given_back_when_it_ends(comm, standin, cupy, overlap):
    """Without a collection of garbage, which comes when it comes."""
    trainer, pool = make_trainer("toy", "adam", comm, device="cuda", overlap=overlap), cupy.get_default_memory_pool()
    for _ in range(2):
        trainer.train_step()
    gc.collect()
    gc.disable()
    try:
        used = []
        for _ in range(4):
            trainer.train_step()
            used.append(pool.used_bytes())
    finally:
        gc.enable()
    assert len(set(used[::2])) == len(set(used[1::2])) == 1  # steps of an epoch are not alike
