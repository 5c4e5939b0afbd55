"""--checkpoint-every 30s: one clock decides for all ranks; without barriers there is no such moment."""

from types import SimpleNamespace

import pytest
from toys import Toy, make_options, toy_data

from refimpl.training import session
from refimpl.training.run.checkpoint import save_checkpoint
from refimpl.training.session import train
from refimpl.transport import CollectiveError

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]


def test_the_clock_of_rank_0_decides_for_all(comm, mpi_tmp_path, monkeypatch):
    """A step takes 1 s on rank 0's clock and 100 s on the others'; with 2.5 s every third step is saved, and the end."""
    def tick():
        clock.seconds += (1 if comm.rank == 0 else 100) / 2  # a step is timed at its beginning and its end

    clock, saved = SimpleNamespace(seconds=0.0), []
    monkeypatch.setattr(session, "time", SimpleNamespace(
        perf_counter=lambda: (tick(), clock.seconds)[1], monotonic=lambda: clock.seconds))
    monkeypatch.setattr(session, "save_checkpoint", lambda trainer, *arguments, **more: (
        saved.append(trainer.step), save_checkpoint(trainer, *arguments, **more)))
    train(Toy(), toy_data(), options=make_options("toy", "adam", steps=8), comm=comm, output=mpi_tmp_path / "run",
          checkpoint_every="2.5s")
    assert saved == [3, 6, 8]


def test_without_barriers_there_is_no_moment_for_all(comm, mpi_tmp_path):
    options = make_options("toy", "sgd", steps=2, architecture="ps", consistency="asynchronous",
                           clip_norm=None)
    with pytest.raises(CollectiveError, match="--checkpoint-every 30s: without barriers .*; give a number of steps"):
        train(Toy(), toy_data(), options=options, comm=comm, output=mpi_tmp_path / "run", checkpoint_every="30s")
    assert not (mpi_tmp_path / "run").exists()
