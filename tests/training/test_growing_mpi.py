"""A training whose batch grows has one answer on any number of ranks, and goes on from the middle of its growth."""

import pytest
from mpi4py import MPI
from toys import make_options

from models.recipe import Recipe, build
from refimpl.training.session import train

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3)]


@pytest.mark.parametrize("model, data", [("cnn", "digits"), ("lm", "synthetic:300")])
@pytest.mark.thorough("lm")
def test_one_answer_and_a_resume_in_another_stage(comm, tmp_path, model, data):
    recipe = Recipe(model, data, "tiny", microbatches=6, microbatch_size=2, window=5, grow_batch=(2, 2))
    path = comm.bcast(tmp_path)

    def run(ranks, steps, **more):
        options = make_options(model, "adam", rate="constant", steps=steps)
        return train(*build(recipe, 0)[:2], options=options, comm=ranks, **more).parameters_sha256

    whole = run(comm, 6)
    run(comm, 3, output=path / "run")
    assert run(MPI.COMM_SELF, 6, resume=path / "run") == whole == run(MPI.COMM_SELF, 6)
