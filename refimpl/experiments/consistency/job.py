"""What each rank runs: the trainings of one job, one after the other; rank 0 writes each result.

    python -m refimpl.experiments.consistency.job JOB.json
"""

import sys
from dataclasses import replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from refimpl.experiments.cells.cell import Cell
from refimpl.experiments.cells.job import run_job
from refimpl.experiments.consistency.once import train_once
from refimpl.experiments.replay.model import ReplayData, ReplayModel
from refimpl.experiments.replay.profile import Profile
from refimpl.training.evaluate import evaluate
from refimpl.training.options import Options
from refimpl.training.slow import slowed
from refimpl.transport import Communicator


def run_cell(cell: Cell, comm: Communicator, profile: str | None, directory: Path) -> dict | None:
    """Train as the cell says; return its result on rank 0. Collective. profile: directory of a replay's."""
    model, data, options = comm.together(lambda: (*build(cell, profile, comm.rank), options_of(cell)))
    with threadpool_limits(1):
        if cell.compute == "real":  # what is compiled and loaded once is no training
            train_once(model, data, replace(options, steps=1), comm)
        trainer, found = train_once(model, data, options, comm)
        if cell.compute == "real":
            found["heldout"] = evaluate(trainer, cell.workload.make_heldout(comm.size, cell.seed))
    return found if comm.rank == 0 else None


def options_of(cell: Cell) -> Options:
    """Return the options of the training. A replay is slowed by its model, whose waiting takes no longer. Local."""
    return Options(**cell.trainer_options, slow_rank=cell.slow if cell.compute == "real" else {})


def build(cell: Cell, profile: str | None, rank: int) -> tuple:
    """Return the model and the data of a rank. Local."""
    if cell.compute == "real":
        data = cell.workload.make_data(cell.ranks, cell.seed)
        return slowed(cell.workload.make_model(), options_of(cell), rank), data
    return replay(Profile(Path(profile)), cell.workload, cell.ranks, cell.slowdown * cell.slow.get(str(rank), 1.0))


def replay(profile: Profile, workload, workers: int, slowdown: float) -> tuple:
    """Return model and data that replay a profile, one microbatch a worker. Local."""
    return ReplayModel(workload.make_model().variables, profile, slowdown), ReplayData(profile, workers)


if __name__ == "__main__":
    sys.exit(run_job(sys.argv[1], run_cell))
