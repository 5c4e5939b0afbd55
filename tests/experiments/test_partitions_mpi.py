"""Steps at several P in random order: all P are measured, alike on all ranks, and the training is the same."""

import pytest
from mpi4py import MPI

from models.recipe import Recipe, build
from refimpl.experiments import partitions
from refimpl.experiments.partitions import measure_partitions
from refimpl.training.options import Options

COMM = MPI.COMM_WORLD


def measured(architecture, counts=(1, 2, 5)):
    model, data, _ = build(Recipe("lm", "synthetic:50", preset="tiny"), seed=0)
    return measure_partitions(model, data, Options(steps=1, architecture=architecture), COMM, counts, times=2, steps=1)


@pytest.mark.mpi
@pytest.mark.ranks(3)
def test_each_number_of_partitions_is_measured_as_often_as_asked(monkeypatch):
    tried = []
    monkeypatch.setattr(partitions, "with_partitions", lambda plan, variables, count, real=partitions.with_partitions:
                        tried.append(count) or real(plan, variables, count))
    found = measured("hybrid")
    assert sorted(tried) == [1, 1, 2, 2, 5, 5] and sorted(tried[:3]) == [1, 2, 5]
    assert list(found) == [1, 2, 5] and all(len(seconds) == 2 and min(seconds) > 0 for seconds in found.values())
    assert COMM.allgather(found) == [found] * COMM.size


@pytest.mark.mpi
@pytest.mark.ranks(3)
def test_a_model_without_partitions_is_refused():
    with pytest.raises(ValueError, match="goes to the server under architecture allreduce"):
        measured("allreduce")
