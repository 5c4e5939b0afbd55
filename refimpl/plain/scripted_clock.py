"""Training without barriers on one rank, by a scripted clock: what a cluster would do, and the same every time.

The script says how long each worker computes. The events follow in the order of time: a worker pulls, computes, pushes,
and pulls again as soon as the owners answer.

    python -m refimpl.plain.scripted_clock
"""

import heapq

from models.recipe import build, recipe_of
from refimpl.plain.async_worker import Share, Step
from refimpl.plain.hybrid import Options
from refimpl.plain.owner import Owner


def run(owners, shares, variables, seconds):
    """Train by a scripted clock; return what happened: [(time, "pull" or "push", worker, clock)].

    seconds: of each worker's step: a list by worker, or a function of (worker, clock). Messages take no time. At one
    time workers come in their order, each with its push and then its pull; after a push, pulls that waited go first.
    """
    of = seconds if callable(seconds) else lambda worker, clock: seconds[worker]
    steps, waiting, happened, agenda = {}, [], [], [(0.0, worker) for worker in range(len(shares))]
    while agenda:
        now, worker = heapq.heappop(agenda)
        if worker in steps:
            happened.append((now, "push", worker, steps[worker].clock))
            for owner in owners:
                owner.push(worker, steps[worker].gradients(owner.number))
        waiting.append(worker)
        for worker in [w for w in waiting if all(owner.answers(w) for owner in owners)]:
            waiting.remove(worker)
            clock = steps[worker].clock + 1 if worker in steps else 0
            step = steps[worker] = Step(shares[worker], clock, variables, len(owners))
            for owner in owners:
                step.answers[owner.number] = owner.pull(worker, step.rows(owner.number))
            if not step.over:
                happened.append((now, "pull", worker, clock))
                heapq.heappush(agenda, (now + of(worker, clock), worker))
    if waiting:
        raise ValueError(f"workers {sorted(waiting)} wait for ever: no owner answers them")
    return happened


def cluster(model, data, options, workers, steps, rule="asynchronous", correction="none"):
    """Return the owners and the workers' shares of a training, as many of both. steps: see ``consistencies``."""
    return ([Owner(i, workers, workers, steps, model.variables, options, rule, correction) for i in range(workers)],
            [Share(model, data, options.seed, i, workers) for i in range(workers)])


def example(workers):
    """Return (model, data, options) of a small training for so many workers."""
    recipe, chosen = recipe_of("lm", {"data": "synthetic", "preset": "tiny", "window": 4, "microbatch_size": 2,
                                      "microbatches": workers})
    options = Options(**{**chosen, "clip_norm": None})
    return *build(recipe, options.seed)[:2], options


def main():
    """Draw four workers, the last of which takes 3 s for a step, the others 1 s: steps are digits, waiting is dots."""
    model, data, options = example(4)
    for rule in ("synchronous", "backup:1", "bounded:2", "asynchronous"):
        owners, shares = cluster(model, data, options, 4, 6, rule)
        happened = run(owners, shares, model.variables, [1, 1, 1, 3])
        print(f"{rule}: {happened[-1][0]:g} s, {owners[0].version} updates")
        for worker in range(4):
            seconds = ["."] * int(happened[-1][0])
            begun = {clock: int(time) for time, what, who, clock in happened if who == worker and what == "pull"}
            for time, what, who, clock in happened:
                if who == worker and what == "push":
                    seconds[begun[clock]:int(time)] = str(clock) * (int(time) - begun[clock])
            print(f"  worker {worker}  {''.join(seconds)}")


if __name__ == "__main__":
    main()
