"""The records of a training without barriers, and nothing else, give its parameters: on one rank, to the bit.

No clock is needed. An owner's next entry can be done as soon as its worker has got that far at the other owners; and
whichever owner goes first, the bits are the same: what an owner does depends on its own entries and on what was pushed.

    python -m refimpl.plain.replay
"""

from refimpl.plain.async_worker import Step
from refimpl.plain.owner import sha256
from refimpl.plain.scripted_clock import cluster, example, run


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
                    stuck.append(f"owner {owner.number}, entry {at[owner.number]}: {lacks}; entries are missing, "
                                 "swapped or damaged")
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


def main():
    """Four workers, one of which takes three times as long: when they end, how stale gradients are; then the replay."""
    model, data, options = example(4)
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
