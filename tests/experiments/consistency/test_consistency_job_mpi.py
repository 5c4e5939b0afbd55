"""Whole trainings of the experiment on four ranks: what they leave adds up."""

import pytest
from mpi4py import MPI

from models.workload import Workload
from refimpl.experiments.cells.cell import CONSISTENCIES
from refimpl.experiments.consistency.figures import versions_late
from refimpl.experiments.consistency.ranks import run_cell
from refimpl.experiments.consistency import WORKERS, cell_of, consistency_of
from refimpl.transport import Communicator

pytestmark = [pytest.mark.mpi, pytest.mark.skipif(MPI.COMM_WORLD.size != WORKERS, reason="there are 4 workers")]
TINY = Workload("tiny", "lm", dict(vocabulary=300, embedding=4, hidden=8, projection=0, layers=1, samples=20, keep=0.9),
                dict(streams=2, window=5))


@pytest.mark.parametrize("contender", CONSISTENCIES)
def test_a_training_leaves_steps_and_records(contender, tmp_path):
    comm, cell = Communicator.of(), cell_of(TINY, contender, "none", "real", 3)
    found = run_cell(cell, comm, None, tmp_path)
    if comm.rank:
        assert found is None
        return
    assert {step[4] for step in found["steps"]} == {10} and found["heldout"]["perplexity"] > 1
    if contender != "backup:1":
        assert sorted(step[:2] for step in found["steps"]) == [[w, s] for w in range(WORKERS) for s in (1, 2, 3)]
    late = versions_late(found["entries"], consistency_of(cell), cell.steps)
    assert len(found["entries"]) == (0 if contender == "synchronous" else WORKERS)
    assert bool(late) == bool(found["entries"])
    assert found["sent"] == 0  # one machine
