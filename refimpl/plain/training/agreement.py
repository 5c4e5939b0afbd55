"""All ranks continue, or all stop: an error on one rank stops all with the same message, and no rank waits for ever.

Before each collective call the ranks compute the maximum of the lengths of their error messages. If it is 0, all ranks
continue. Otherwise they exchange the messages, and all raise the same error.

No rank waits in a blocking call. It tests again and again whether the others have arrived. After the time-out it asks
every rank for a sign of life (a *roll call*). Ranks that also wait answer. Ranks that are stuck or gone do not answer,
and the error names them. A rank that comes after the time-out does not notice by itself that the others have stopped.

    mpirun -n 4 python -m refimpl.plain.training.agreement
"""

import time

import numpy as np
from mpi4py import MPI

CALL, HERE = 1, 2
NOTHING = np.empty(0, np.uint8)


class Stopped(RuntimeError):
    """The error that all ranks raise, with the same message. request: what this rank waited for in vain, if it did."""

    request = MPI.REQUEST_NULL


def wait(comm, request, seconds):
    """Return when ``request`` is complete; after this many seconds raise Stopped, which names missing ranks. Local."""
    end = time.monotonic() + seconds
    while not request.Test():
        answer_roll_calls(comm)
        if time.monotonic() > end:
            stopped = Stopped(f"rank {comm.rank} has waited {seconds:g} s for ranks {missing(comm)}")
            stopped.request = request  # it keeps its arrays: MPI writes to them until it is complete
            raise stopped
        time.sleep(1e-3)


def answer_roll_calls(comm):
    """Answer each rank that asks: this rank is waiting, too. Local."""
    status = MPI.Status()
    while comm.Iprobe(MPI.ANY_SOURCE, CALL, status):
        comm.Recv(NOTHING, status.source, CALL)
        comm.Send(NOTHING, status.source, HERE)


def missing(comm, seconds=1.0):
    """Ask all other ranks; return the ranks that do not answer within this many seconds. Local."""
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    answers = {rank: comm.Irecv(NOTHING, rank, HERE) for rank in others}
    for rank in others:
        comm.Send(NOTHING, rank, CALL)  # an empty message: Send does not wait for its receiver
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer_roll_calls(comm)
        answers = {rank: request for rank, request in answers.items() if not request.Test()}
    for request in answers.values():
        request.Cancel()
        request.Wait()
    return sorted(answers)


def agree(comm, words="", seconds=300.0):
    """Return on all ranks, or raise Stopped on all ranks if any rank gives an error message. Collective."""
    mine, worst = np.array([len(words.encode())]), np.empty(1, np.int64)
    wait(comm, comm.Iallreduce(mine, worst, MPI.MAX), seconds)
    if worst[0]:
        page = np.frombuffer(words.encode().ljust(worst[0]), np.uint8)  # all ranks' pages have the same length
        pages = np.empty((comm.size, worst[0]), np.uint8)
        wait(comm, comm.Iallgather(page, pages), seconds)
        told = [bytes(page).decode().rstrip() for page in pages]
        raise Stopped("; ".join(f"rank {rank}: {said}" for rank, said in enumerate(told) if said))


def main(comm=MPI.COMM_WORLD):
    """The last rank fails. Then rank 0 arrives later than the time-out of the others."""
    said, given_up = [], []
    for words, late in (("", False), ("the disk is gone" if comm.rank == comm.size - 1 else "", False), ("", True)):
        try:
            if late and comm.rank == 0:
                time.sleep(2.5)
            agree(comm, words, seconds=0.5 if late and comm.rank else 300.0)
            said.append("goes on")
        except Stopped as error:
            said.append(f"stops: {error}")
            given_up.append(error.request)
    MPI.Request.Waitall(given_up)  # rank 0 arrives after all, so MPI can end
    print(f"rank {comm.rank} " + ", then ".join(said), flush=True)


if __name__ == "__main__":
    main()
