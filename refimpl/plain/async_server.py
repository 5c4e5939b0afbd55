"""A parameter server without barriers: owners answer pulls and apply pushes as they come, by messages between ranks.

    worker -> owners   PULL: row numbers        owner -> worker   ANSWER: (over, values), when the consistency allows
    worker -> owners   PUSH: its gradients      nobody answers: the worker goes on and pulls

Every rank is a worker and an owner. Its worker computes in a second thread, while the first goes on serving: else all
would wait for the slowest in each step, as with a barrier. The first thread alone deals with MPI and the owner, the
second with copies of what was pulled: no lock is needed. MPI keeps the order of messages between two ranks: so a
worker's push is there before its next pull, and each is taken once. A rank with nothing to do sleeps a little.

The end: who has done enters a barrier that does not block, and serves until all are in it. Then every pull has been
answered, and before it every push taken: nothing is under way.

    mpirun -n 4 python -m refimpl.plain.async_server bounded:2 dc-asgd
"""

import os

if __name__ == "__main__":  # more threads may add in another order; read when NumPy is imported
    os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "NUMBA")}

import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from mpi4py import MPI

from refimpl.plain.agreement import Stopped
from refimpl.plain.async_worker import Step
from refimpl.plain.owner import sha256
from refimpl.plain.replay import replay
from refimpl.plain.scripted_clock import cluster, example

PULL, ANSWER, PUSH = 11, 12, 13


class AsyncServer:
    """This rank's owner, and its worker, whose work is ``share``. seconds: who waits so long for an answer gives up."""

    def __init__(self, comm, owner, share, variables, seconds=300.0):
        self.comm, self.owner, self.share, self.variables, self.seconds = comm, owner, share, variables, seconds
        self.waiting, self.requests, self.step = {}, [], None

    def train(self):
        """Do all steps of this rank's worker, and serve the others until they have done theirs. Collective."""
        with ThreadPoolExecutor(1) as computing:
            for clock in count():
                self.step = Step(self.share, clock, self.variables, self.comm.size)
                for rank in range(self.comm.size):
                    self.send(self.step.rows(rank), rank, PULL)
                self.serve_until(lambda: self.step.complete, self.seconds)
                if self.step.over:
                    break
                computed = computing.submit(lambda: self.step.computed)
                self.serve_until(computed.done)
                computed.result()  # raises what the computation raised
                for rank in range(self.comm.size):
                    self.send(self.step.gradients(rank), rank, PUSH)
        self.serve_until(self.comm.Ibarrier().Test, self.seconds)
        MPI.Request.waitall(self.requests)

    def send(self, what, rank, tag):
        """Send, and go on. Local."""
        self.requests = [request for request in self.requests if not request.Test()]
        self.requests.append(self.comm.isend(what, rank, tag))

    def serve_until(self, done, seconds=math.inf):
        """Deal with messages as they come, until ``done()``; raise Stopped after so long without any. Local."""
        status, last = MPI.Status(), time.monotonic()
        while not done():
            if self.comm.iprobe(status=status):
                last = time.monotonic()
                self.take(self.comm.recv(source=status.source, tag=status.tag), status.source, status.tag)
            elif time.monotonic() > last + seconds:
                silent = sorted(set(range(self.comm.size)) - set(self.step.answers))
                raise Stopped(f"rank {self.comm.rank}, in step {self.step.clock}, has waited {seconds:g} s for "
                              + (f"answers of owners {silent}" if silent else "other ranks to come to their end"))
            else:
                time.sleep(2e-4)  # this burns no core

    def take(self, what, rank, tag):
        """Deal with a message. After a push some pulls may be answered that could not be before. Local."""
        if tag == ANSWER:
            self.step.answers[rank] = what
        elif tag == PULL:
            self.waiting[rank] = what
        else:
            self.owner.push(rank, what)
        for worker in [w for w in self.waiting if self.owner.answers(w)]:  # first come, first served
            self.send(self.owner.pull(worker, self.waiting.pop(worker)), worker, ANSWER)


def train(comm, model, data, options, steps, rule="asynchronous", correction="none"):
    """Train; return (hash of the parameters, every owner's record), on every rank. Collective."""
    owners, shares = cluster(model, data, options, comm.size, steps, rule, correction)
    server = AsyncServer(comm, owners[comm.rank], shares[comm.rank], model.variables)
    server.train()
    values, records = comm.allgather(server.owner.values), comm.allgather(server.owner.record)
    return sha256(model.variables, values), records


def main(comm=MPI.COMM_WORLD, rule="asynchronous", correction="none"):
    """Train a small language model; each rank prints its record, and rank 0 replays them all by itself."""
    model, data, options = example(comm.size)
    steps, comm = 6, comm.Dup()
    expected, records = train(comm, model, data, options, steps, rule, correction)
    if comm.rank == 0:
        print(*(f"owner {rank}: {' '.join(map(str, record))}" for rank, record in enumerate(records)), sep="\n")
        replay(*cluster(model, data, options, comm.size, steps, rule, correction), model.variables, records, expected)
        print(f"parameters sha256 {expected}, and the same of the records alone, on one rank", flush=True)
    comm.Barrier()


if __name__ == "__main__":
    try:
        main(MPI.COMM_WORLD, *sys.argv[1:3])
    except ValueError as problem:  # of the consistency or the correction asked for, on every rank
        sys.exit(str(problem))
