"""Replay: from the event logs of a training without barriers one rank computes its parameters again, to the bit.

The replay needs no times. It handles the next entry of an owner's event log as soon as the worker of this entry has its
answers from the other owners. The order of the owners does not matter: what an owner does depends only on the order of
its own entries and on the gradients that are pushed.

    python -m refimpl.plain.without_barriers.replay
"""

from refimpl.plain.without_barriers.async_worker import Step
from refimpl.plain.without_barriers.owner import sha256
from refimpl.plain.without_barriers.scripted_clock import cluster, example, run


def replay(owners, shares, variables, records, expected=None):
    """Repeat a training. records[i]: the event log of owners[i].  owners, shares: new, as at the training's start.

    expected: the hash of the parameters at the training's end. Raises ValueError, which names the entry, for event logs
    that no training can have written, and for event logs that give other parameters.
    """
    if len(records) != len(owners):
        raise ValueError(f"{len(records)} records of {len(owners)} owners: give the record of every owner")
    steps, stuck = {}, []
    at, before = [0] * len(owners), None  # at: the next entry of each record
    while at != before:  # Ask all owners again and again. An owner may have to wait for an entry of another one.
        stuck, before = [], list(at)
        for owner, record in zip(owners, records):
            for worker in record[at[owner.number]:]:  # as many entries as this owner can handle now
                if lacks := follow(owner, worker, steps, shares, variables):
                    stuck.append(f"owner {owner.number}, entry {at[owner.number]}: {lacks}; entries are missing, "
                                 "swapped or damaged")
                    break
                at[owner.number] += 1
    missing = sorted(set(range(len(shares))) - {worker for (worker, _), step in steps.items() if step.over})
    if stuck or missing:
        raise ValueError(stuck[0] if stuck else f"the records end before workers {missing} have finished: they are cut")
    found = sha256(variables, [owner.values for owner in owners])
    if expected not in (None, found):
        raise ValueError(f"the records give parameters {found[:12]}…, but the training ended with {expected[:12]}…: "
                         "entries are swapped, or model, data or options differ")


def follow(owner, worker, steps, shares, variables):
    """Handle an owner's next entry, which belongs to ``worker``, and return None. If this is not possible, return why.

    steps: (worker, clock) -> Step. Owners are at most one step apart, since a worker waits for all of its answers.
    """
    if worker not in range(len(shares)):
        return f"there is no worker {worker}, only {len(shares)}"
    clock = owner.clocks[worker]
    if worker not in owner.pulled:
        if not owner.answers(worker):
            return f"worker {worker} pulls, but {owner.rule} lets it wait"
        steps.pop((worker, clock - 2), None)  # no owner needs it any more
        if (worker, clock) not in steps:  # this owner is the first to handle the step
            steps[worker, clock] = Step(shares[worker], clock, variables, owner.owners)
        step = steps[worker, clock]
        step.answers[owner.number] = owner.pull(worker, step.rows(owner.number))
        return None
    step = steps[worker, clock]
    if step.over or not step.complete:
        return f"worker {worker} pushes, but it has " + ("finished" if step.over else "not pulled from all owners")
    owner.push(worker, step.gradients(owner.number))
    return None


def main():
    """Four workers, one of which takes three times as long: print the end time and the staleness, then replay."""
    model, data, options = example(4)
    for rule in ("synchronous", "backup:1", "bounded:2", "softsync:2", "asynchronous"):
        owners, shares = cluster(model, data, options, 4, 6, rule)
        end, *_ = run(owners, shares, model.variables, [1.0, 1.0, 1.0, 3.0])[-1]
        applied = sum(owners[0].staleness.values())
        stale = sum(updates * rows for updates, rows in owners[0].staleness.items()) / applied
        expected = sha256(model.variables, [owner.values for owner in owners])
        again = cluster(model, data, options, 4, 6, rule)
        replay(*again, model.variables, [owner.record for owner in owners], expected)
        record = "".join(map(str, owners[0].record))
        print(f"{rule:12} {end:4.0f} s  staleness {stale:.2f}  replayed to {expected[:8]}  record {record}")


if __name__ == "__main__":
    main()
