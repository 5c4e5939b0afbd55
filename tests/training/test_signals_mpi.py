"""A training that is asked to end says what is on disk, on every rank, and may write one more checkpoint before."""

import os
import signal
import time

import pytest
from toys import Toy, last, make_options, toy_data

from refimpl.gradients import leaves_of
from refimpl.training.run.checkpoint import steps_saved
from refimpl.training.run.signals import Signals
from refimpl.training.session import train
from refimpl.transport import CollectiveError

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]
OPTIONS = make_options("toy", "adam", steps=12)


@pytest.fixture(autouse=True)
def hung_up_on():
    """Let SIGHUP be no ignored one, as it is under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


class Asking(Toy):
    """A toy that gets signals, of these numbers, when it is called for the ``count``-th time."""

    def __init__(self, count=0, *numbers):
        super().__init__()
        self.count, self.numbers = count, numbers

    def loss_and_gradients(self, dense, rows, batch):
        self.count -= 1
        for number in self.numbers if self.count == 0 else ():
            os.kill(os.getpid(), number)
            time.sleep(0.05)  # else two may come as one
        return super().loss_and_gradients(dense, rows, batch)


def ended(comm, numbers, checkpoint, path, **more):
    """Return what all ranks say of a training in which the last rank gets these signals, and its status' signal."""
    private = comm.Dup()  # messages may stay under way
    with Signals(checkpoint, path) as signals, pytest.raises(CollectiveError) as caught:
        train(Asking(4 * len(leaves_of(comm.rank, comm.size, 8)) if last(comm) else 0, *numbers), toy_data(),
              options=OPTIONS, comm=private, output=path, checkpoint_every=2, signals=signals, **more)
    said = comm.allgather((str(caught.value), getattr(caught.value, "signal", None)))
    assert len(set(said)) == 1
    return said[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.thorough("False-15")
def test_it_ends_and_says_what_is_on_disk(comm, tmp_path, number, overlap):
    path = comm.bcast(tmp_path) / "run"
    whole = train(Toy(), toy_data(), options=OPTIONS, comm=comm)
    said, told = ended(comm, [number], False, path)
    saved = steps_saved(path)[-1]
    who = f"rank {comm.size - 1}: " if comm.size > 1 else ""
    assert said == (f"{who}ended by {signal.Signals(number).name}: the checkpoint of step {saved} is saved; go on with "
                    f"--resume {path}")
    assert told == number
    resumed = train(Toy(), toy_data(), options=OPTIONS, comm=comm, resume=path)
    assert resumed.parameters_sha256 == whole.parameters_sha256 and saved < OPTIONS.steps


def test_it_writes_one_more_checkpoint(comm, tmp_path):
    path = comm.bcast(tmp_path) / "run"
    whole = train(Toy(), toy_data(), options=OPTIONS, comm=comm)
    said, told = ended(comm, [signal.SIGTERM] * 2, True, path)  # at the same moment: one signal, handed on twice
    saved = steps_saved(path)[-1]
    assert f"SIGTERM: ended after step {saved}: the checkpoint of step {saved} is saved; go on with --resume" in said
    assert told == signal.SIGTERM
    resumed = train(Toy(), toy_data(), options=OPTIONS, comm=comm, resume=path)
    assert resumed.state_sha256 == whole.state_sha256 and saved < OPTIONS.steps


def test_a_second_signal_ends_it_at_once(comm, tmp_path, monkeypatch):
    monkeypatch.setattr("refimpl.training.run.signals.ONE_SECONDS", 0.0)
    path = comm.bcast(tmp_path) / "run"
    said, _ = ended(comm, [signal.SIGTERM] * 2, True, path)
    assert "ended by SIGTERM" in said and "ended after step" not in said


def test_nothing_is_on_disk(comm):
    said, _ = ended(comm, [signal.SIGTERM], True, None)
    assert said.endswith("no checkpoint is saved")


def test_what_is_ignored_is_said_and_goes_on(comm, capfd):
    """As nohup asks: whoever logs out sends SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals(False) as signals:
            train(Asking(5, signal.SIGHUP), toy_data(), options=OPTIONS, comm=comm, signals=signals)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert "SIGHUP came and is ignored" in capfd.readouterr().err
