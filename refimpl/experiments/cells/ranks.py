"""Run the cells of one job, one after the other; rank 0 writes each result.

One job runs all cells of one cluster, because 48 Python processes on two cores take a quarter of a minute to start.
"""

import gc
import importlib
import json
from pathlib import Path

from refimpl.experiments.cells.cell import Cell
from refimpl.experiments.replay import Profile, ReplayData, ReplayModel
from refimpl.training.options import Options
from refimpl.training.run.files import write_json
from refimpl.training.slow import slowed
from refimpl.transport import Communicator


def run_cells(comm: Communicator, module: str, path: str):
    """Run the cells of a job's file one after the other; rank 0 writes each result. Collective.

    module: its run_cell(cell, comm, directory of a replay's profile or None, output directory) returns the result on
    rank 0.
    """
    job, run_cell = json.loads(Path(path).read_text()), importlib.import_module(module).run_cell
    directory = Path(job["directory"])
    for data in job["cells"]:
        cell = Cell.from_json(data)
        result = run_cell(cell, comm, job["profiles"].get(cell.workload.name), directory)
        if comm.rank == 0:
            target = directory / cell.file
            target.parent.mkdir(parents=True, exist_ok=True)
            write_json(target, {"cell": cell.to_json(), "version": job["version"], "result": result})
        gc.collect()


def build(cell: Cell, profile: str | None, rank: int) -> tuple:
    """Return the model and the data of a rank, one microbatch a worker. profile: directory of a replay's. Local."""
    model = cell.workload.make_model()
    if cell.compute == "real":
        return slowed(model, options_of(cell), rank), cell.workload.make_data(cell.ranks, cell.seed)
    kept, slower = Profile(Path(profile)), cell.slow.get(str(rank), 1.0)
    return ReplayModel(model.variables, kept, cell.slowdown * slower), ReplayData(kept, cell.ranks)


def options_of(cell: Cell, **more) -> Options:
    """Return the options of the training. A replay has no slow rank here, because its model sleeps longer. Local."""
    return Options(**cell.trainer_options, **more, slow_rank=cell.slow if cell.compute == "real" else {})
