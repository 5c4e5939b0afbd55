"""The cells of one job, one after the other; rank 0 writes each result.

One job runs all cells of one cluster, because 48 Python processes on two cores take a quarter of a minute to start.
"""

import gc
import json
from pathlib import Path

from refimpl.experiments.cells.cell import Cell
from refimpl.training.run.files import write_json
from refimpl.transport import Communicator


def run_job(path: str, run) -> int:
    """Run the cells of a job one after the other; rank 0 writes each result. Collective.

    run(cell, comm, directory of a replay's profile or None, output directory) -> its result on rank 0. Collective.
    """
    job, comm = json.loads(Path(path).read_text()), Communicator.of()
    directory = Path(job["directory"])
    for data in job["cells"]:
        cell = Cell.from_json(data)
        if comm.rank == 0:
            print(f"{cell.experiment}: {cell.file.stem}", flush=True)
        result = run(cell, comm, job["profiles"].get(cell.workload.name), directory)
        if comm.rank == 0:
            target = directory / cell.file
            target.parent.mkdir(parents=True, exist_ok=True)
            write_json(target, {"cell": cell.to_json(), "version": job["version"], "result": result})
        gc.collect()
    return 0
