"""Check and time what all ranks do together beside its peers, in turns: a slow moment of the machine falls on all."""

import statistics
import time
from dataclasses import dataclass
from operator import truediv

from kernels.arrays import array_module
from refimpl.experiments.bench.timing import Row
from refimpl.transport import Communicator

TURN_SECONDS = 5e-3  # of calls, at least one: long beside what a turn itself costs, short beside a slow moment


@dataclass(frozen=True)
class PairedRow(Row):
    """A timing; ratio, of a peer: its seconds / our quickest's in the same round, median of the rounds."""

    ratio: float | None = None


def check_sum(comm, name: str, array, allreduce) -> None:
    """Sum whole numbers, which no rounding error excuses; leave zeros, so that the array's memory is real. Collective.

    array: what this rank contributes.  allreduce() -> the sum.  Raises CollectiveError on every rank if it is wrong.
    """
    place = array_module(array).arange(array.size) % 97
    array[...] = place * (comm.rank + 1)
    right = bool((allreduce() == place * (comm.size * (comm.size + 1) // 2)).all())
    comm.agree(None if right else ValueError(f"{name} gives a wrong sum of {array.size} elements"))
    array[...] = 0
    comm.meet("a benchmark")


def race_together(comm: Communicator, work: str, size: str, ours: dict, peers: dict, seconds: float,
                  rounds: int) -> list[PairedRow]:
    """Time every function (name -> collective callable) in interleaved rounds; return a row each. Collective.

    A round gives each function one turn; there are as many as fill ``seconds``, at least ``rounds``. The rows keep
    medians over rounds, of the slowest rank's time.
    """
    runners = {**ours, **peers}
    calls, whole = {}, 0.0
    for name, function in runners.items():
        function()  # connections, memory
        once = time_together(comm, function, 1)
        if once < 1e-3:  # one call is too short to be measured
            once = time_together(comm, function, 20)
        calls[name] = max(1, int(min(TURN_SECONDS, seconds / rounds / len(runners)) / max(once, 1e-7)))
        whole += calls[name] * once
    times = {name: [] for name in runners}
    for _ in range(max(rounds, int(seconds / whole))):
        for name, function in runners.items():
            times[name].append(time_together(comm, function, calls[name]))
    return paired(work, size, times, ours)


def paired(work: str, size: str, times: dict, ours) -> list[PairedRow]:
    """Return a row for each of times: name -> seconds of each round. ours: the names that are no peers. Local."""
    quickest = min(ours, key=lambda name: statistics.median(times[name]), default=None)
    rows = []
    for name, took in times.items():
        peer = name not in ours
        ratio = statistics.median(map(truediv, took, times[quickest])) if peer and quickest else None
        rows.append(PairedRow(work, size, name, peer, statistics.median(took), ratio))
    return rows


def time_together(comm: Communicator, function, calls: int) -> float:
    """Return the seconds of a call on the slowest rank, the same on every rank. Collective."""
    comm.meet("a benchmark")
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return float(comm.gather_numbers([(time.perf_counter() - start) / calls], "a benchmark").max())
