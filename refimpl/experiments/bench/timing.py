"""Time a piece of work beside its peers, in one run: rounds are interleaved, so that noise falls on all alike."""

import statistics
import time
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Row:
    """One timing: ``name`` did ``work`` of ``size`` in ``seconds`` (median of its rounds); ``peer`` if not ours."""

    work: str
    size: str
    name: str
    peer: bool
    seconds: float


def race(work: str, size: str, ours: dict, peers: dict, seconds: float = 3.0, rounds: int = 7,
         settle=lambda: None) -> list[Row]:
    """Time every function (name -> callable without arguments) in interleaved rounds; return a Row each. Local.

    A round calls one function as often as fills its share of ``seconds``; the row keeps the median of the rounds.
    settle: returns when all that was begun is done; called within the time, once a round (a device works on behind us).
    """
    def timed(function, calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            function()
        settle()
        return (time.perf_counter() - start) / calls

    runners = {**ours, **peers}
    calls, times = {}, {name: [] for name in runners}
    for name, function in runners.items():
        timed(function, 1)  # compile, touch memory
        calls[name] = max(1, int(seconds / rounds / len(runners) / max(timed(function, 1), 1e-7)))
    for _ in range(rounds):
        for name, function in runners.items():
            times[name].append(timed(function, calls[name]))
    return [Row(work, size, name, name in peers, statistics.median(t)) for name, t in times.items()]


def report(rows: list[Row]) -> dict:
    """Return {"rows": [...], "ratios": {work: best peer's seconds / our best seconds}}, every bench's JSON. Local."""
    ratios = {}
    for work in dict.fromkeys(r.work for r in rows):
        ours, peers = ([r.seconds for r in rows if r.work == work and r.peer == peer] for peer in (False, True))
        if ours and peers:
            ratios[work] = min(peers) / min(ours)
    return {"rows": [asdict(r) for r in rows], "ratios": ratios}
