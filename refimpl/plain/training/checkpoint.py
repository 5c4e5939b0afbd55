"""A checkpoint does not depend on the number of ranks: a training resumes from it on any other, with the same bits.

A rank keeps parts of some variables. To save, the ranks gather whole variables, and rank 0 writes them: their values,
and the optimizer's state for them. It also writes the number of steps done, and what each microbatch carries to the
next step. To resume, each rank reads its own parts. The random numbers of a step depend on seed, step and microbatch
alone, so no generator has a state to save. Rank 0 writes a new file and renames it when it is complete: if a rank dies
while it writes, the last checkpoint is still there.

    mpirun -n 4 python -m refimpl.plain.training.checkpoint
"""

import os

if __name__ == "__main__":  # NumPy reads these when it is imported. More threads may add in another order
    os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "NUMBA")}

import tempfile
from pathlib import Path

import numpy as np
from mpi4py import MPI

from models.recipe import build, recipe_of
from refimpl.plain.training.hybrid import Hybrid, Options

OF_RANK = 1 << 40  # more elements than a rank has of a variable


def kept(training):
    """Return [(key, strategy, this rank's part)] of all values and all state of the optimizer."""
    return [(f"{slot}/{name}", strategy, part) for name, strategy in training.strategies.items()
            for slot, part in {"value": strategy.values, **training.optimizer.state[name]}.items()]


def save(training, path):
    """Write a training of ``refimpl.plain.training.hybrid`` to a file. Collective."""
    arrays = {key: strategy.whole(part) for key, strategy, part in kept(training)}
    for carried in training.messages.comm.allgather(training.worker.carried):
        arrays |= {f"carried/{v}/{name}": array for v, state in carried.items() for name, array in state.items()}
    if training.messages.rank == 0:
        new = Path(f"{path}.new")
        with open(new, "wb") as file:
            np.savez(file, steps=training.steps_done, **arrays)
            file.flush()
            os.fsync(file.fileno())  # on the disk before it gets its name
        new.replace(path)
    training.messages.comm.Barrier()


def resume(training, path):
    """Continue a training that was just made from a file, whatever number of ranks wrote it. Collective."""
    with np.load(path) as arrays:
        training.steps_done = int(arrays["steps"])
        for key, strategy, part in kept(training):
            part.flat[...] = arrays[key].flat[places(training.messages.rank, strategy, part)]
        worker = training.worker
        worker.carried = {v: {} for v in range(worker.first, worker.stop)}
        for key in (key for key in arrays if key.startswith("carried/")):
            _, v, name = key.split("/", 2)
            if int(v) in worker.carried:
                worker.carried[int(v)][name] = arrays[key]


def places(rank, strategy, part):
    """Return where the elements of this rank's part are in the whole array: (part.size,) integers. Collective.

    Each rank numbers its elements. In the whole array of these numbers it looks for its own.
    """
    numbers = rank * OF_RANK + np.arange(part.size).reshape(part.shape)
    whole = strategy.whole(numbers).reshape(-1)
    found = np.empty(part.size, np.int64)
    mine = np.flatnonzero(whole // OF_RANK == rank)
    found[whole[mine] % OF_RANK] = mine
    return found


def main(comm=MPI.COMM_WORLD):
    """Train four steps; and two, a checkpoint, and two more on half of the ranks, as another architecture."""
    recipe, chosen = recipe_of("lm", {"data": "synthetic", "preset": "tiny", "rate_steps": 4})
    options, half = Options(**chosen), comm.Split(comm.rank >= (comm.size + 1) // 2)  # both halves resume

    def started(ranks, architecture):
        return Hybrid(*build(recipe, options.seed)[:2], options, ranks, architecture)

    with tempfile.TemporaryDirectory() as folder:
        path, training = Path(comm.bcast(folder)) / "checkpoint.npz", started(comm, "hybrid")
        for step in range(4):
            if step == 2:
                save(training, path)
            training.step()
        training.messages.tell(f"{comm.size} ranks, 4 steps: {training.sha256()}")
        resumed = started(half, "sharded-optimizer")
        resume(resumed, path)
        for _ in range(2):
            resumed.step()
        training.messages.tell(f"{half.size} ranks, 2 steps after the checkpoint: {resumed.sha256()}")


if __name__ == "__main__":
    main()
