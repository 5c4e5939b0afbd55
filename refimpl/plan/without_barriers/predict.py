"""Predicted throughput of a training without barriers, where some workers compute more slowly than others.

    a worker's step    bytes of the answer through the cards + its computation + bytes of push and next pull

Bytes are exact, the mean over the sampled steps; a card (or a machine's memory) does one transfer after the other, each
way; a transfer arrives when the last of its cards has done it, a latency later, and ``overhead`` for each of the
worker's messages. So synchronous workers wait for the busiest card, as in ``refimpl.plan.predict``.

Left out: adding up and updating at owners, and that they take cores from computing; how computation varies from step to
step; bursts; that one message waits at one end for a card at the other. Predictions compare consistencies.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from refimpl.plain.consistencies import consistency
from refimpl.plan.cost import machine_numbers
from refimpl.plan.plan import SYNCHRONOUS, Plan
from refimpl.plan.predict import Predictor, by_machine, speeds
from refimpl.plan.without_barriers.clock import Clock, Foreseen, TimedTransfer
from refimpl.plan.without_barriers.cost import check_served, messages_of_worker_step

COMPARED = (SYNCHRONOUS, "backup:1", "bounded:2", "softsync:2", "asynchronous")
STEPS = 100  # that are looked ahead, times S + 1 under bounded:S: a worker that is faster by 2 % gets S steps ahead
PUSHES = 20_000  # that are looked ahead at most


@dataclass(frozen=True)
class Prediction:
    """What a consistency would give. steps: of all workers together, that are applied, a second.

    staleness: updates between a pull and its push, the mean over pushes that are applied.  applied: part of all pushes.
    nbytes: bytes of a worker's step between ranks, the mean over workers; the same under every consistency.
    """

    consistency: str
    steps: float
    staleness: float
    applied: float
    nbytes: float


def predict_without_barriers(plan: Plan, predictor: Predictor, seconds, asked: str | None = None) -> list[Prediction]:
    """Return the prediction of each consistency that fits the plan's ranks, and of the one ``asked`` for. Local.

    plan: its owners count; there is no local aggregation.  seconds: of each worker's computation, above 0.
    Raises ValueError if a variable is not on the server, or there is no such consistency.
    """
    check_served(plan, predictor.variables)
    alone = replace(plan, local_aggregation=False, pull_rounds=1)
    sampled = [predictor.sample.both(i, plan.ranks)[0] for i in range(max(1, len(predictor.sample.steps)))]
    messages = [_messages(alone, predictor, sampled, worker) for worker in range(plan.ranks)]
    there, back, nbytes = map(list, zip(*messages))
    found = []
    for rule in rules(plan.ranks, asked):
        steps = STEPS * (1 + consistency(rule, plan.ranks, 1).number)
        steps = max(10, min(steps, PUSHES // plan.ranks))
        foreseen = Clock(rule, plan.ranks, steps, seconds, there, back).run()
        found.append(Prediction(rule, *at_work(foreseen, plan.ranks), float(np.mean(nbytes))))
    return found


def rules(workers: int, asked: str | None = None) -> list[str]:
    """Return the consistencies to compare, and the one asked for. Raises ValueError if it cannot be had. Local."""
    found = []
    for rule in COMPARED:
        with suppress(ValueError):  # backup:1 of one worker
            consistency(rule, workers, 1)
            found.append(rule)
    if asked is not None:
        consistency(asked, workers, 1)
    return list(dict.fromkeys(found + [asked] * (asked is not None)))


def seconds_with(compute: float, slow, ranks: int) -> list[float]:
    """Return the seconds of each rank's computation: ``compute``, and on slow ranks a factor as long. Local.

    slow: (rank, factor) of each.
    Raises ValueError for a rank that there is not, or that is named twice, or seconds beyond reason.
    """
    for rank, times in Counter(rank for rank, _ in slow).items():
        if rank not in range(ranks):
            raise ValueError(f"--slow-rank {rank}: there is no such rank; name one from 0 to {ranks - 1}, or give more "
                             "--ranks")
        if times > 1:
            raise ValueError(f"--slow-rank {rank} is given {times} times: say it once")
    factors = dict(slow)
    seconds = [compute * factors.get(rank, 1.0) for rank in range(ranks)]
    if beyond := [each for each in seconds if not 1e-9 <= each <= 1e9]:
        raise ValueError(f"--compute {compute:g}: a step of {beyond[0]:g} s; give what is between 1e-9 and 1e9 s, on "
                         "slow ranks, too")
    return seconds


def at_work(foreseen: Foreseen, workers: int) -> tuple[float, float, float]:
    """Return (steps, staleness, applied) of ``Prediction`` while all workers are at work. Local.

    A worker's rate is taken from a pull to a later pull of its own. Looked at is the second half of the time until the
    first has pushed for the last time: by then the fast ones are as far ahead as they may come.
    """
    pulls: list[list] = [[] for _ in range(workers)]
    last = [0.0] * workers
    for time, what, worker, clock in foreseen.events:
        if what == "pull":
            pulls[worker].append((time, clock))
        else:
            last[worker] = time
    until, rate, pushed, staleness = min(last), 0.0, 0, []
    for worker, own in enumerate(pulls):
        looked_at = [pull for pull in own if until / 2 <= pull[0] <= until]
        if len(looked_at) > 1:
            (begin, first), (end, beyond) = looked_at[0], looked_at[-1]
            stale = [foreseen.staleness[worker, clock] for clock in range(first, beyond)
                     if (worker, clock) in foreseen.staleness]
            rate += len(stale) / (end - begin)
            pushed += beyond - first
            staleness += stale
    return rate, float(np.mean(staleness or [0])), len(staleness) / max(1, pushed)


def _messages(plan, predictor, sampled, worker):
    """Return the worker's Transfers (there, back), and the bytes of its step, means over the sampled steps.

    sampled: of each step, name -> the rows that each rank needs; its gradient touches them all.
    """
    network, ways = predictor.network, np.zeros((2, plan.ranks))
    for needs in sampled:
        rows = {name: each[worker] for name, each in needs.items()}
        messages = messages_of_worker_step(plan, predictor.variables, worker, rows, rows)
        ways += sum(map(np.array, messages.values())) / len(sampled)
    there, back = np.zeros((2, plan.ranks, plan.ranks))
    there[worker], back[:, worker] = ways
    others = plan.ranks - 1
    latency = (network.latency if len(network.machines) > 1 else network.latency_within) if others else 0.0
    return *(TimedTransfer((by_machine(matrix, machine_numbers(plan)) / speeds(network)).ravel(),
                           latency + network.overhead * many)
             for matrix, many in ((there, 2 * others), (back, others))), ways.sum()
