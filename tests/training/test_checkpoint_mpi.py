"""Checkpoints of several ranks: when one is due, and that no rank is left waiting when rank 0 cannot write."""

from errno import ENOSPC
from types import SimpleNamespace

import pytest
from toys import Toy, make_options, make_trainer, refusal, toy_data

from refimpl.strategies import blocks
from refimpl.training import session
from refimpl.training.run import checkpoint
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


@pytest.mark.parametrize("written", [0, 1, 5, 20])
def test_a_full_disk_ends_all_ranks(comm, mpi_tmp_path, monkeypatch, written):
    """Rank 0 meets the end of the disk after so many pieces, of one row each."""
    def full(path, pieces):
        for _, piece in zip(range(written), pieces):
            assert len(piece) >= 0
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(blocks, "BLOCK", 1)
    monkeypatch.setattr(checkpoint, "write_pieces", full)
    trainer = make_trainer("toy", "adam", comm, architecture="ps")
    message = refusal(comm, lambda: save_checkpoint(trainer, mpi_tmp_path, {}))
    assert "cannot write a checkpoint to" in message and "No space left on device; free space there" in message
    assert list(mpi_tmp_path.iterdir()) == []
    trainer.train_step()  # nothing is left on the way
