"""A job to be killed: trains the toy for many steps, a checkpoint after each; goes on where the last one stopped.

    python killed_job.py DIRECTORY STEPS
"""

import sys
from pathlib import Path

from mpi4py import MPI
from toys import Toy, make_options, toy_data

from refimpl.training.run.checkpoint import steps_saved
from refimpl.training.session import train


def main(directory, steps):
    resume = directory if steps_saved(directory) else None
    if resume is None and (directory / "config.json").exists() and MPI.COMM_WORLD.rank == 0:
        (directory / "config.json").unlink()  # killed before its first checkpoint: begin anew
    MPI.COMM_WORLD.Barrier()
    options = make_options("toy", "adam", steps=steps, rate_steps=steps,
                           architecture="hybrid" if MPI.COMM_WORLD.size == 2 else "ps")
    result = train(Toy(), toy_data(), options=options, output=directory, resume=resume, checkpoint_every=1)
    if MPI.COMM_WORLD.rank == 0:
        print(result.parameters_sha256, result.state_sha256)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
