"""Time functions in turns, so that a slow moment of the machine affects all of them; on one rank or on all ranks."""

import math
import statistics
import time
from dataclasses import asdict, dataclass
from functools import partial
from operator import truediv

import numpy as np

from refimpl.experiments.cluster.card import card_bytes, on_cluster

TURN_SECONDS = 5e-3  # of a turn of several ranks: far more than a turn's own cost, far less than a slow moment
SETTLE_SECONDS = 20e-3
"""An emulated card first sends 128 KiB at once, and sends at its rate when these are used up: in 5 ms at full rate."""
WARM_UP = 3
"""Calls of each step before the turns: they connect, allocate and compile, and show how long a call takes."""


@dataclass(frozen=True)
class Row:
    """One timing: ``name`` did ``work`` of ``size`` in ``seconds``, a median over rounds. peer: whether not ours."""

    work: str
    size: str
    name: str
    peer: bool
    seconds: float


def grouped(rows: list[dict], by: str) -> dict[str, list[dict]]:
    """Return value of the field ``by`` -> its rows, in their order. Local."""
    return {value: [row for row in rows if row[by] == value] for value in dict.fromkeys(row[by] for row in rows)}


def take_turns(functions: dict, rounds: int, timed) -> dict:
    """Return name -> timed(name, function) of each round. Collective if ``timed`` is.

    Each function has one turn in a round; the first one is the last in the next round.
    """
    found = {name: [] for name in functions}
    for number in range(rounds):
        for name in list(functions)[::-1 if number % 2 else 1]:
            found[name].append(timed(name, functions[name]))
    return found


def fill(functions: dict, seconds: float, rounds: int, timed, turn: float = math.inf) -> dict[str, list[float]]:
    """Return name -> seconds of a call in each round. The rounds fill ``seconds``; there are at least ``rounds``.

    timed(function, calls) -> seconds of a call.  turn: the most seconds of a function's calls in a round; there is at
    least one call.
    """
    calls, whole = {}, 0.0
    for name, function in functions.items():
        timed(function, 1)  # compile, connect, touch memory
        once = max(timed(function, 1), 1e-7)
        if once < 1e-3:  # too short to be measured
            once = max(timed(function, 20), 1e-7)
        calls[name] = max(1, int(min(turn, seconds / rounds / len(functions)) / once))
        whole += calls[name] * once
    return take_turns(functions, max(rounds, int(seconds / whole)), lambda name, function: timed(function, calls[name]))


def race(work: str, size: str, ours: dict, peers: dict, seconds: float = 3.0, rounds: int = 7,
         settle=lambda: None) -> list[Row]:
    """Time every function (name -> callable without arguments) in turns; return a Row each. Local.

    settle: returns when all work is done, also a device's; it is called once in each turn, and counts.
    """
    def timed(function, calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            function()
        settle()
        return (time.perf_counter() - start) / calls

    times = fill({**ours, **peers}, seconds, rounds, timed)
    return [Row(work, size, name, name in peers, statistics.median(took)) for name, took in times.items()]


def report(rows: list[Row]) -> dict:
    """Return {"rows": [...], "ratios": {work: best peer's seconds / our best seconds}}, every bench's JSON. Local."""
    ratios = {}
    for work in dict.fromkeys(r.work for r in rows):
        ours, peers = ([r.seconds for r in rows if r.work == work and r.peer == peer] for peer in (False, True))
        if ours and peers:
            ratios[work] = min(peers) / min(ours)
    return {"rows": [asdict(r) for r in rows], "ratios": ratios}


def time_together(comm, function, calls: int) -> float:
    """Return the seconds of a call on the slowest rank, the same on every rank. Collective."""
    comm.meet("a benchmark")
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return float(comm.gather_numbers([(time.perf_counter() - start) / calls], "a benchmark").max())


def _time_settled(comm, function, calls: int) -> float:
    """Do as ``time_together``. On emulated machines, first call for SETTLE_SECONDS: see there. Collective."""
    spent = 0.0 if on_cluster() else SETTLE_SECONDS
    while spent < SETTLE_SECONDS:
        spent += calls * time_together(comm, function, calls)
    return time_together(comm, function, calls)


def race_together(comm, work: str, size: str, ours: dict, peers: dict, seconds: float, rounds: int) -> list[dict]:
    """Time every function (name -> collective callable) in turns; return the slowest rank's rows. Collective."""
    times = fill({**ours, **peers}, seconds, rounds, partial(_time_settled, comm), TURN_SECONDS)
    return paired(work, size, times, ours)


def paired(work: str, size: str, times: dict, ours) -> list[dict]:
    """Return a ``Row`` for each name, as plain data, with two more fields. Local.

    times: name -> seconds of each round.  ours: the names that are not peers.
    ratio: of a peer, the median of its seconds / our fastest's in a round; ours has None.  ratios: (least, most).
    """
    quickest = min(ours, key=lambda name: statistics.median(times[name]), default=None)
    rows = []
    for name, took in times.items():
        peer = name not in ours
        pairs = sorted(map(truediv, took, times[quickest])) if peer and quickest else []
        rows.append({**asdict(Row(work, size, name, peer, statistics.median(took))),
                     "ratio": statistics.median(pairs) if pairs else None,
                     "ratios": (pairs[0], pairs[-1]) if pairs else None})
    return rows


def race_steps(comm, steps: dict, seconds: float, rounds: int) -> tuple[dict, dict]:
    """Time steps (name -> collective callable) in turns; all are called equally often. Collective.

    Returns name -> seconds of a call on the slowest rank, turn by turn; and name -> [sent, received], the mean bytes of
    the busiest card in a call. The latter is empty if there are no cards, because all ranks share memory.
    """
    whole = 0.0
    for step in steps.values():
        time_together(comm, step, WARM_UP - 1)
        whole += time_together(comm, step, 1)
    calls, moved = max(1, int(seconds / rounds / whole)), {name: np.zeros(2, np.int64) for name in steps}

    def timed(name, step) -> float:
        comm.meet("a benchmark")
        before = card_bytes()
        took = time_together(comm, step, calls)
        if before is not None:
            moved[name] += np.subtract(card_bytes(), before)
        return took

    turns = take_turns(steps, rounds, timed)
    busiest = {name: comm.share(mine, "bench").max(axis=0) / (rounds * calls) for name, mine in moved.items()}
    return turns, {name: card.tolist() for name, card in busiest.items() if card.any()}


def time_alone(comm, computations: dict) -> dict[str, float]:
    """Return name -> median seconds of a computation, which all ranks do at the same time. Collective."""
    turns = take_turns(computations, 6, lambda _, computation: time_together(comm, computation, 2))
    return {name: statistics.median(spent[1:]) for name, spent in turns.items()}  # the first only fills caches
