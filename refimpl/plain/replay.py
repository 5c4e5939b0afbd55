"""Two ways to train without barriers on one rank: by a scripted clock, and by the records of another training.

Both deal with owners and workers as messages between ranks would (``refimpl.plain.async_server``). The clock says when
each worker has computed; the events follow, in the order of time. Records need no clock: an owner's next entry can be
done as soon as the worker has got that far at the other owners, and whichever owner goes first, the bits are the same.

    python -m refimpl.plain.replay
"""

import heapq

from models.recipe import build, recipe_of
from refimpl.plain.async_worker import Share, Step
from refimpl.plain.hybrid import Options
from refimpl.plain.owner import Owner, sha256


def run(owners, shares, variables, seconds):
    """Train by a scripted clock; return what happened: [(time, "pull" or "push", worker, clock)].

    seconds: of each worker's step: a list by worker, or a function of (worker, clock). Messages take no time. What falls
    on one time is done in worker order, a push before the pull that follows it; pulls that waited go first.
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


def replay(owners, shares, variables, records, expected=None):
    """Do what the records say, records[i] being that of owners[i]; owners and shares must be new ones.

    expected: hash of the parameters with which the training ended. Raises ValueError, saying where, for records that no
    training can have left, or which end otherwise.
    """
    if len(records) != len(owners):
        raise ValueError(f"{len(records)} records of {len(owners)} owners: bring every owner's")
    steps, stuck, at, before = {}, [], [0] * len(owners), None
    while at != before:  # an owner that is stuck may go on when another has
        stuck, before = [], list(at)
        for owner, record in zip(owners, records):
            for worker in record[at[owner.number]:]:
                if lacks := follow(owner, worker, steps, shares, variables):
                    stuck.append(f"owner {owner.number}, entry {at[owner.number]}: {lacks}; entries are missing or swapped")
                    break
                at[owner.number] += 1
    missing = sorted(set(range(len(shares))) - {worker for (worker, _), step in steps.items() if step.over})
    if stuck or missing:
        raise ValueError(stuck[0] if stuck else f"the records end before workers {missing} have done: they are cut")
    found = sha256(variables, [owner.values for owner in owners])
    if expected not in (None, found):
        raise ValueError(f"the records give parameters {found[:12]}…, but the training ended with {expected[:12]}…: "
                         "entries are swapped, or model, data or options are others")


def follow(owner, worker, steps, shares, variables):
    """Do an owner's next entry, of this worker; or do nothing, and return why it cannot be done.

    steps: (worker, clock) -> Step. Owners are at most one step apart: none goes on before all have answered.
    """
    if worker not in range(len(shares)):
        return f"there is no worker {worker}, only {len(shares)}"
    clock = owner.clocks[worker]
    if worker not in owner.pulled:
        if not owner.answers(worker):
            return f"worker {worker} pulls, whom {owner.rule} lets wait"
        steps.pop((worker, clock - 2), None)
        step = steps.get((worker, clock)) or steps.setdefault(
            (worker, clock), Step(shares[worker], clock, variables, owner.owners))
        step.answers[owner.number] = owner.pull(worker, step.rows(owner.number))
        return None
    step = steps[worker, clock]
    if step.over or not step.complete:
        return f"worker {worker} pushes, " + ("which had done" if step.over else "which has not pulled from all owners")
    owner.push(worker, step.gradients(owner.number))
    return None


def cluster(model, data, options, workers, steps, rule="asynchronous", correction="none"):
    """Return the owners and the workers' shares of a training, as many of both. steps: see ``consistencies``."""
    return ([Owner(i, workers, workers, steps, model.variables, options, rule, correction) for i in range(workers)],
            [Share(model, data, options.seed, i, workers) for i in range(workers)])


def main():
    """Four workers, one of which takes three times as long: when they end, how stale gradients are; then the replay."""
    recipe, chosen = recipe_of("lm", {})
    options = Options(**{**chosen, "clip_norm": None})
    model, data = build(recipe, options.seed)[:2]
    for rule in ("synchronous", "backup:1", "bounded:2", "softsync:2", "asynchronous"):
        owners, shares = cluster(model, data, options, 4, 6, rule)
        end, *_ = run(owners, shares, model.variables, [1.0, 1.0, 1.0, 3.0])[-1]
        applied = sum(owners[0].staleness.values())
        stale = sum(updates * rows for updates, rows in owners[0].staleness.items()) / applied
        expected, again = sha256(model.variables, [owner.values for owner in owners]), cluster(
            model, data, options, 4, 6, rule)
        replay(*again, model.variables, [owner.record for owner in owners], expected)
        record = "".join(map(str, owners[0].record))
        print(f"{rule:12} {end:4.0f} s  staleness {stale:.2f}  replayed to {expected[:8]}  record {record}")


if __name__ == "__main__":
    main()
