"""``progress`` ends a training: on all ranks, after the same step, as a training of so many steps ends."""

import pytest
from toys import Toy, make_options, toy_data

from refimpl.training.run.checkpoint import steps_saved
from refimpl.training.session import train
from refimpl.transport import CollectiveError

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]


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
        trained(comm, 5, 2, options=dict(architecture="ps", consistency="asynchronous", clip_norm=None))
