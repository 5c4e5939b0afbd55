"""A rank dies, and the result does not change: the other ranks continue without it and end with the same bits.

    step       every rank does a step of the hybrid training. Then it sends its partner, the next rank, a copy of what
               it alone keeps: its rows with their optimizer arrays, and the state of its microbatches
    agree      the living ranks agree whether all have finished; only then does the step count
    recover    otherwise the living ranks form a smaller communicator, and divide rows and microbatches again. They get
               the dead rank's share from its partner, and repeat the step

The microbatches are the same on any number of ranks, and their gradients are added up in the order of one tree. So the
repeated step gives the same bits as if no rank had died. MPI must continue when a rank dies, as Open MPI does with
ULFM. --kill 2@5@0.1: rank 2 kills itself in step 5, after 0.1 s.

    mpirun -n 4 python -m refimpl.plain.training.hybrid lm --steps 10                          # nobody dies
    mpirun --with-ft ulfm -n 4 python -m refimpl.plain.training.survive lm --steps 10 --kill 2@5@0.1   # the same hash
"""

import os

if __name__ == "__main__":  # NumPy reads these when it is imported. More threads may add in another order
    os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "NUMBA")}

import argparse
import copy
import signal
import threading

from mpi4py import MPI

from models.recipe import build, recipe_of
from models.registry import MODELS
from refimpl.plain.training.backup import arrays_of, back_up, restore, share_of
from refimpl.plain.training.hybrid import Hybrid, Options


def agree(comm, done):
    """Return whether all ranks are alive and done; every living rank gets the same answer. Collective."""
    try:
        return bool(comm.Agree(int(done)))
    except MPI.Exception:  # a rank died. All other living ranks get this exception, too
        return False


def recover(begin, comm, names, before, backup):
    """Return (training, names, backup) of the living ranks, in the state before the failed step. Collective."""
    old, me, (share, dense) = names, names[comm.rank], before
    while True:
        comm, done = comm.Shrink(), False
        try:
            names = comm.allgather(me)
            if any({old[i - 1], old[i]}.isdisjoint(names) for i in range(len(old))):  # a rank and its partner died
                print("A rank and its partner died together: their rows are lost.", flush=True)
                agree(comm, True)  # wait until all have printed
                os._exit(1)  # not Abort: if several ranks call it, the launcher hangs
            lost = [] if old[old.index(me) - 1] in names else [backup]  # the rank before this one is dead
            shares = [part for parts in comm.allgather([share, *lost]) for part in parts]
            training = begin(comm)
            restore(training, dense, shares)
            new, done = back_up(training), True
        except MPI.Exception:  # another rank died: try again without it
            comm.Revoke()
        if agree(comm, done):
            return training, names, new


def train(begin, comm, steps, deaths):
    """Train, even if ranks die; return the training. begin(comm): makes one.  deaths: (rank, step, seconds)."""
    training, names = begin(comm), comm.allgather(comm.rank)  # names[r]: the number that rank r had at the start
    backup, steps_done = back_up(training), 0
    while steps_done < steps:
        comm, done = training.messages.comm, False
        before = copy.deepcopy((share_of(training), arrays_of(training, sparse=False)))
        for seconds in [s for rank, step, s in deaths if (rank, step) == (names[comm.rank], steps_done + 1)]:
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
        try:
            training.step()
            new, done = back_up(training), True
        except MPI.Exception:  # a rank died, or another rank has noticed it and revoked the communicator
            comm.Revoke()  # so that no rank waits for this one
        if agree(comm, done):
            backup, steps_done = new, steps_done + 1
        else:
            training, names, backup = recover(begin, comm, names, before, backup)
            training.steps_done = steps_done
    return training


def main(comm=MPI.COMM_WORLD):
    """Train a model as ``training.hybrid`` does, while ranks kill themselves; print the hash and the bytes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--kill", nargs="*", default=[], metavar="RANK@STEP@SECONDS")
    asked = parser.parse_args()
    recipe, chosen = recipe_of(asked.model, {"rate_steps": asked.steps})
    training = train(lambda alive: Hybrid(*build(recipe, 0)[:2], Options(**chosen), alive), comm, asked.steps,
                     [tuple(map(float, kill.split("@"))) for kill in asked.kill])
    training.messages.tell(f"sent as backup {training.messages.sent['backup']:,} B; sha256 {training.sha256()}")
    agree(training.messages.comm, True)
    os._exit(0)  # MPI_Finalize may wait for the dead


if __name__ == "__main__":
    main()
