"""Training without barriers on one rank, with scripted computing times. Each run gives the same result.

The script says how long each worker computes. Events are handled in order of their times: a worker pulls, computes,
pushes, and pulls again as soon as the owners answer.

    python -m refimpl.plain.without_barriers.scripted_clock
"""

import heapq

from models.recipe import build, recipe_of
from refimpl.plain.training.hybrid import Options
from refimpl.plain.without_barriers.async_worker import Share, Step
from refimpl.plain.without_barriers.owner import Owner


def run(owners, shares, variables, seconds):
    """Train with scripted times; return the list of events, (time, "pull" or "push", worker, clock).

    seconds: the time that a worker computes in a step: a list with one entry for each worker, or a function of (worker,
    clock). Messages take no time. Events of the same time are handled in worker order: first a worker's push, then its
    pull. After a push, pulls that have waited are answered first.
    """
    of = seconds if callable(seconds) else lambda worker, clock: seconds[worker]
    steps, waiting, happened = {}, [], []  # steps: worker -> its current Step.  waiting: workers whose pulls wait
    # agenda: (time, worker). At this time the worker ends its step; at time 0 it has not begun one.
    agenda = [(0.0, worker) for worker in range(len(shares))]
    while agenda:
        now, worker = heapq.heappop(agenda)  # the earliest
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
    """Return (owners, shares) of a training: one owner and one share for each worker. steps: see ``consistencies``."""
    return ([Owner(i, workers, workers, steps, model.variables, options, rule, correction) for i in range(workers)],
            [Share(model, data, options.seed, i, workers) for i in range(workers)])


def example(workers):
    """Return (model, data, options) of a small training for this number of workers."""
    recipe, chosen = recipe_of("lm", {"data": "synthetic", "preset": "tiny", "window": 4, "microbatch_size": 2,
                                      "microbatches": workers})
    options = Options(**{**chosen, "clip_norm": None})
    return *build(recipe, options.seed)[:2], options


def main():
    """Print the steps of four workers as digits, and waiting as dots. The last needs 3 s for a step, the others 1 s."""
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
