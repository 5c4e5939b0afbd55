"""A parameter server without barriers: ranks send pulls and pushes as messages, and owners handle them as they arrive.

    worker -> owners   PULL: row numbers        owner -> worker   ANSWER: (over, values), when the consistency allows it
    worker -> owners   PUSH: its gradients      there is no answer: the worker continues with its next pull

Every rank is a worker and an owner. The worker computes in a second thread, so that the owner can answer meanwhile.
Otherwise all ranks would wait for the slowest one in each step, as with a barrier. Only the first thread uses MPI and
the owner. The second thread has copies of the values that were pulled, so no lock is needed. MPI keeps the order of
messages between two ranks, so a worker's push always arrives before its next pull. An idle rank sleeps for a moment.

A worker that has finished enters a non-blocking barrier, and its rank serves the others until all have entered. By then
every push has been applied and every pull has been answered, so no message is under way.

    mpirun -n 4 python -m refimpl.plain.without_barriers.async_server bounded:2 dc-asgd
"""

import os

if __name__ == "__main__":  # NumPy reads these when it is imported. More threads may add in another order
    os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "NUMBA")}

import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from mpi4py import MPI

from refimpl.plain.training.agreement import Stopped
from refimpl.plain.without_barriers.async_worker import Step
from refimpl.plain.without_barriers.owner import sha256
from refimpl.plain.without_barriers.replay import replay
from refimpl.plain.without_barriers.scripted_clock import cluster, example

PULL, ANSWER, PUSH = 11, 12, 13


class AsyncServer:
    """This rank's owner, and its worker with its ``share``. seconds: how long a rank waits without any message."""

    def __init__(self, comm, owner, share, variables, seconds=300.0):
        self.comm, self.owner, self.share, self.variables, self.seconds = comm, owner, share, variables, seconds
        self.waiting, self.requests, self.step = {}, [], None

    def train(self):
        """Do all steps of this rank's worker, and serve the other workers until they have finished. Collective."""
        with ThreadPoolExecutor(1) as computing:
            for clock in count():
                self.step = Step(self.share, clock, self.variables, self.comm.size)
                for rank in range(self.comm.size):
                    self.send(self.step.rows(rank), rank, PULL)
                self.serve_until(lambda: self.step.complete, self.seconds)
                if self.step.over:
                    break
                computed = computing.submit(lambda: self.step.computed)  # the second thread computes it
                self.serve_until(computed.done)
                computed.result()  # raises what the computation raised
                for rank in range(self.comm.size):
                    self.send(self.step.gradients(rank), rank, PUSH)
        self.serve_until(self.comm.Ibarrier().Test, self.seconds)
        MPI.Request.waitall(self.requests)

    def send(self, what, rank, tag):
        """Start to send, and do not wait. Local."""
        self.requests = [request for request in self.requests if not request.Test()]
        self.requests.append(self.comm.isend(what, rank, tag))

    def serve_until(self, done, seconds=math.inf):
        """Handle messages until ``done()``; raise Stopped if none arrives for this many seconds. Local."""
        status, last = MPI.Status(), time.monotonic()
        while not done():
            if self.comm.iprobe(status=status):
                last = time.monotonic()
                self.take(self.comm.recv(source=status.source, tag=status.tag), status.source, status.tag)
            elif time.monotonic() > last + seconds:
                silent = sorted(set(range(self.comm.size)) - set(self.step.answers))
                raise Stopped(f"rank {self.comm.rank}, in step {self.step.clock}, has waited {seconds:g} s for "
                              + (f"answers of owners {silent}" if silent else "other ranks to finish"))
            else:
                time.sleep(2e-4)  # a short sleep leaves the core to other ranks

    def take(self, what, rank, tag):
        """Handle one message, then answer the pulls that may be answered now. Local."""
        if tag == ANSWER:
            self.step.answers[rank] = what
        elif tag == PULL:
            self.waiting[rank] = what
        else:
            self.owner.push(rank, what)
        for worker in [w for w in self.waiting if self.owner.answers(w)]:  # first come, first served
            self.send(self.owner.pull(worker, self.waiting.pop(worker)), worker, ANSWER)


def train(comm, model, data, options, steps, rule="asynchronous", correction="none"):
    """Train; return (hash of the parameters, the event logs of all owners) on every rank. Collective."""
    owners, shares = cluster(model, data, options, comm.size, steps, rule, correction)
    server = AsyncServer(comm, owners[comm.rank], shares[comm.rank], model.variables)
    server.train()
    values, records = comm.allgather(server.owner.values), comm.allgather(server.owner.record)
    return sha256(model.variables, values), records


def main(comm=MPI.COMM_WORLD, rule="asynchronous", correction="none"):
    """Train a small language model. Rank 0 prints the event logs of all owners and replays them by itself."""
    model, data, options = example(comm.size)
    steps, comm = 6, comm.Dup()
    expected, records = train(comm, model, data, options, steps, rule, correction)
    if comm.rank == 0:
        print(*(f"owner {rank}: {' '.join(map(str, record))}" for rank, record in enumerate(records)), sep="\n")
        replay(*cluster(model, data, options, comm.size, steps, rule, correction), model.variables, records, expected)
        print(f"parameters sha256 {expected}; the replay of the records on one rank gives the same", flush=True)
    comm.Barrier()


if __name__ == "__main__":
    try:
        main(MPI.COMM_WORLD, *sys.argv[1:3])
    except ValueError as problem:  # no such consistency or correction: every rank raises this
        sys.exit(str(problem))
