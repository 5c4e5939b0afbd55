"""Time what all ranks do together beside its peers: rounds are interleaved, the slowest rank's time counts."""

import statistics
import time

import numpy as np
from mpi4py import MPI

from refimpl.experiments.bench.timing import Row


def race_together(comm, work: str, size: str, ours: dict, peers: dict, seconds: float, rounds: int) -> list[Row]:
    """Time every function (name -> collective callable) in interleaved rounds; return a Row each. Collective.

    A round calls one function as often as fills its share of ``seconds``; the row keeps the median of the rounds.
    """
    runners = {**ours, **peers}
    calls, times = {}, {name: [] for name in runners}
    for name, function in runners.items():
        function()  # connections, memory
        once = time_together(comm, function, 1)
        if once < 1e-3:  # one call is too short to be measured
            once = time_together(comm, function, 20)
        calls[name] = max(1, int(seconds / rounds / len(runners) / max(once, 1e-7)))
    for _ in range(rounds):
        for name, function in runners.items():
            times[name].append(time_together(comm, function, calls[name]))
    return [Row(work, size, name, name in peers, statistics.median(t)) for name, t in times.items()]


def time_together(comm, function, calls) -> float:
    """Return the seconds of a call on the slowest rank, the same on every rank."""
    comm.Barrier()
    start = time.perf_counter()
    for _ in range(calls):
        function()
    mine, slowest = np.array([(time.perf_counter() - start) / calls]), np.empty(1)
    comm.Allreduce(mine, slowest, MPI.MAX)
    return float(slowest[0])
