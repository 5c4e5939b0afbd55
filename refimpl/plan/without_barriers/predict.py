"""Predicts the throughput of a training without barriers in which some workers are slower than others.

    a worker's step    transfer of the answer + its computation + transfer of the push and the next pull

Bytes are exact: the mean over the sampled steps. A card (or a machine's memory) does one transfer after the other in
each direction. A transfer arrives when the last of its cards has finished it, plus a latency, plus ``overhead`` for
each message. So synchronous workers wait for the busiest card, as in ``refimpl.plan.predict``.

Left out: the work of owners, variations of the computing time, bursts, and the wait of a message at one end for the
card at the other. Predictions compare consistencies.
"""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from refimpl.plain.without_barriers.consistencies import consistency
from refimpl.plan.between import Between
from refimpl.plan.cost import machine_numbers
from refimpl.plan.plan import SYNCHRONOUS, Plan
from refimpl.plan.predict import Predictor, speeds
from refimpl.plan.without_barriers.clock import Clock, Foreseen, TimedTransfer
from refimpl.plan.without_barriers.cost import check_served, messages_of_worker_step

COMPARED = (SYNCHRONOUS, "backup:1", "bounded:2", "softsync:2", "asynchronous")
STEPS = 100  # predicted steps; S + 1 times as many under bounded:S, so that a worker 2 % faster gets S steps ahead
PUSHES = 20_000  # the most predicted pushes


@dataclass(frozen=True)
class Prediction:
    """The prediction for a consistency. steps: applied steps of all workers together in a second.

    staleness: updates between a pull and its push, the mean over applied pushes.  applied: fraction of the pushes.
    nbytes: bytes of a worker's step between ranks, the mean over workers; the same under every consistency.
    """

    consistency: str
    steps: float
    staleness: float
    applied: float
    nbytes: float


def predict_without_barriers(plan: Plan, predictor: Predictor, seconds, asked: str | None = None) -> list[Prediction]:
    """Return the predictions of all consistencies that fit the plan's ranks, and of the one ``asked`` for. Local.

    plan: only its owners count; there is no local aggregation.  seconds: of each worker's computation, above 0.
    Raises ValueError if a variable is not on the server, or the consistency does not exist.
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
    """Return the consistencies to compare, with the one asked for. Raises ValueError if it is not possible. Local."""
    found = []
    for rule in COMPARED:
        with suppress(ValueError):  # backup:1 of one worker
            consistency(rule, workers, 1)
            found.append(rule)
    if asked is not None:
        consistency(asked, workers, 1)
    return list(dict.fromkeys(found + [asked] * (asked is not None)))


def seconds_with(compute: float, slow, ranks: int) -> list[float]:
    """Return the seconds of each rank's computation: ``compute``, multiplied by a factor on slow ranks. Local.

    slow: (rank, factor) of each.  Raises ValueError for an unknown rank, a rank named twice, or invalid seconds.
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
        raise ValueError(f"--compute {compute:g} makes a step of {beyond[0]:g} s: give 1e-9 to 1e9 s, also after the "
                         "factor of a slow rank")
    return seconds


def at_work(foreseen: Foreseen, workers: int) -> tuple[float, float, float]:
    """Return (steps, staleness, applied) of ``Prediction`` for the time in which all workers are busy. Local.

    A worker's rate is measured from one of its pulls to a later one. Only the second half of the time until the first
    worker's last push counts: by then fast workers are as far ahead as they can be.
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
    """Return the worker's transfers (there, back), and the bytes of its step: means over the sampled steps.

    sampled: for each step, name -> the rows that each rank needs; a gradient is taken to touch all of them.
    """
    network, ways = predictor.network, np.zeros((2, plan.ranks))
    for needs in sampled:
        rows = {name: each[worker] for name, each in needs.items()}
        messages = messages_of_worker_step(plan, predictor.variables, worker, rows, rows)
        ways += sum(map(np.array, messages.values())) / len(sampled)
    owners, mine = np.arange(plan.ranks), np.full(plan.ranks, worker)
    there, back = (Between.listed(plan.ranks, *ends, nbytes)
                   for ends, nbytes in zip(((mine, owners), (owners, mine)), ways))
    others = plan.ranks - 1
    latency = (network.latency if len(network.machines) > 1 else network.latency_within) if others else 0.0
    return *(TimedTransfer((sent.by_machine(machine_numbers(plan)) / speeds(network)).ravel(),
                           latency + network.overhead * many)
             for sent, many in ((there, 2 * others), (back, others))), ways.sum()
