"""Checkpoints of several ranks: when one is due, what goes on from them, and that none waits if rank 0 cannot write."""

from errno import ENOSPC
from types import SimpleNamespace

import pytest
from mpi4py import MPI
from toys import Toy, make_options, make_trainer, refusal, toy_data

from models.recipe import Recipe, build
from refimpl.strategies import blocks
from refimpl.training import session
from refimpl.training.run import checkpoint
from refimpl.training.run.checkpoint import save_checkpoint, steps_saved
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


def trained(comm, steps, stop_at=None, **more):
    options = make_options("toy", "adam", steps=steps, **more.pop("options", {}))
    return train(Toy(), toy_data(), toy_data(), options=options, comm=comm,
                 progress=lambda record: record["step"] == stop_at, **more)


def test_a_training_that_is_stopped_is_a_shorter_one(comm, mpi_tmp_path):
    """And goes on later as if nothing had been."""
    stopped, short = trained(comm, 9, 3, output=mpi_tmp_path / "run"), trained(comm, 3)
    assert (stopped.steps, stopped.parameters_sha256, stopped.state_sha256, stopped.evaluation) == (
        3, short.parameters_sha256, short.state_sha256, short.evaluation)
    assert steps_saved(mpi_tmp_path / "run") == [3]
    resumed, whole = trained(comm, 6, output=mpi_tmp_path / "run", resume=mpi_tmp_path / "run"), trained(comm, 6)
    assert (resumed.steps, resumed.parameters_sha256) == (6, whole.parameters_sha256)
    assert whole.parameters_sha256 != short.parameters_sha256


def test_to_stop_at_the_last_step_is_nothing_new(comm):
    assert trained(comm, 3, 3).parameters_sha256 == trained(comm, 3).parameters_sha256


def test_without_barriers_nobody_waits_for_rank_0(comm):
    with pytest.raises(CollectiveError, match="progress returned True, which ends a synchronous training only"):
        trained(comm.Dup(), 5, 2, options=dict(  # messages may stay under way
            architecture="ps", consistency="asynchronous", clip_norm=None))


@pytest.mark.ranks(3)
@pytest.mark.parametrize("model, data", [("cnn", "digits"), ("lm", "synthetic:300")])
@pytest.mark.thorough("lm")
def test_a_batch_that_grows_has_one_answer_and_a_resume_in_another_stage(comm, tmp_path, model, data):
    recipe = Recipe(model, data, "tiny", microbatches=6, microbatch_size=2, window=5, grow_batch=(2, 2))
    path = comm.bcast(tmp_path)

    def run(ranks, steps, **more):
        options = make_options(model, "adam", rate="constant", steps=steps)
        return train(*build(recipe, 0)[:2], options=options, comm=ranks, **more).parameters_sha256

    whole = run(comm, 6)
    run(comm, 3, output=path / "run")
    assert run(MPI.COMM_SELF, 6, resume=path / "run") == whole == run(MPI.COMM_SELF, 6)
