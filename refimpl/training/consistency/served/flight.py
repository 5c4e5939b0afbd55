"""A rank's part of a checkpoint without barriers: what is under way, besides the values and the optimizer's state.

    owner/i/…     its event log, counts, clocks; what workers have pulled and not yet pushed for; pushes that wait
    worker/w/…    its clock; the answers of some owners, if others have not answered; seconds since the beginning
    plan, steps   digest of the owners in the plan, because row numbers depend on them; the number of steps

All messages have been read by then (``WithoutBarriers.run``). A pull that waits for its answer is sent again.
"""

import hashlib
import json
from collections import Counter

import numpy as np

from kernels import RowGradient
from refimpl.plain.without_barriers.owner import Push
from refimpl.plan.plan import Plan
from refimpl.training.consistency.served.owner import Owner, Pulled
from refimpl.training.consistency.served.serving import Serving
from refimpl.training.run.manifest import FLIGHT as ROOT


def arrays_of(serving: Serving, seconds: float) -> dict[str, np.ndarray]:
    """Return {name: array} of what an owner and a worker have under way. seconds: since the beginning. Local."""
    owner, worker = serving.owner, serving.worker
    here, mine = f"{ROOT}/owner/{worker.number}", f"{ROOT}/worker/{worker.number}"
    found = {f"{here}/record": np.array(owner.record, np.int64),
             f"{here}/counts": np.array([owner.version, *owner.clocks, *owner.seen], np.int64),
             f"{here}/has_pulled": np.array(sorted(owner.pulled), np.int64),
             f"{here}/staleness": np.array(sorted(owner.staleness.items()), np.int64).reshape(-1, 2),
             f"{mine}/clock": np.array([worker.clock, serving.asked], np.int64),
             f"{mine}/seconds": np.array([seconds])}
    if worker.number == 0:
        found |= {f"{ROOT}/plan": digest_of(worker.plan), f"{ROOT}/steps": np.array([worker.options.steps])}
    found |= {f"{here}/updates/{name}": counts for name, counts in owner.updates.items()}
    found |= {f"{here}/squares/{name}": s for name, s in getattr(owner.correction, "mean_squares", {}).items()}
    for number, pulled in owner.pulled.items():
        found |= _of_pulled(f"{here}/pulled/{number}", pulled)
    for place, push in enumerate(owner.consistency.held):
        at = f"{here}/held/{place}"
        found[f"{at}/push"] = np.array([push.worker, push.clock, push.version], np.int64)
        found |= _of_pulled(f"{at}/pulled", push.pulled)
        for name, gradient in push.gradients.items():
            parts = vars(gradient) if isinstance(gradient, RowGradient) else {"": gradient}
            found |= {f"{at}/gradient/{name}/{part}": array for part, array in parts.items()}
    for number, values in worker.answers.items() if serving.asked else ():
        found[f"{mine}/answer/{number}/over"] = np.array([serving.overs[number]], np.int64)
        found |= {f"{mine}/answer/{number}/value/{name}": array for name, array in values.items()}
    return found


def digest_of(plan: Plan) -> np.ndarray:
    """Return the SHA-256 of a plan's placements: (32,) uint8. Local."""
    placed = json.dumps([placement.to_json() for placement in plan.placements], sort_keys=True)
    return np.frombuffer(hashlib.sha256(placed.encode()).digest(), np.uint8)


def steps_done(arrays: dict[str, np.ndarray]) -> dict[int, int]:
    """Return worker -> the number of its steps. arrays: of all ranks. Local."""
    clocks = {int(name.split("/")[2]): clock for name, clock in arrays.items()
              if name.startswith(f"{ROOT}/worker/") and name.endswith("/clock")}
    return {worker: int(clock) + (not asked) for worker, (clock, asked) in clocks.items()}


def check_fits(plan: Plan, steps: int, arrays: dict[str, np.ndarray]):
    """Raise ValueError, with a remedy, unless these arrays belong to a training of this plan and length. Local."""
    workers = len(steps_done(arrays))
    if workers != plan.ranks:
        raise ValueError(f"the checkpoint is of {workers} workers, each at a step of its own: resume on {workers} "
                         f"ranks, not {plan.ranks}")
    if not np.array_equal(arrays[f"{ROOT}/plan"], digest_of(plan)):
        raise ValueError("the checkpoint uses another row partitioning, and holds gradients on their way to these "
                         "partitions: leave out --partitions, --partition-scheme and --plan, or give --plan the run's "
                         "plan.json")
    if arrays[f"{ROOT}/steps"][0] != steps:
        raise ValueError(f"the checkpoint is of a training of {arrays[f'{ROOT}/steps'][0]} steps; without barriers, a "
                         f"resumed run cannot change their number: resume with as many --steps, not {steps}")


def restore(serving: Serving, arrays: dict[str, np.ndarray]) -> float:
    """Give an owner and a worker the state in ``arrays``, and send pulls without answer again. Local.

    Returns the seconds since the beginning. arrays: of ``arrays_of``, checked by ``check_fits``.
    """
    owner, worker = serving.owner, serving.worker
    here, mine, n = f"{ROOT}/owner/{worker.number}", f"{ROOT}/worker/{worker.number}", len(owner.clocks)
    counts = arrays[f"{here}/counts"].tolist()
    owner.version, owner.clocks, owner.seen = counts[0], counts[1:1 + n], counts[1 + n:]
    owner.record, owner.staleness = arrays[f"{here}/record"].tolist(), Counter(
        dict(arrays[f"{here}/staleness"].tolist()))
    for name in owner.updates:
        owner.updates[name] = np.array(arrays[f"{here}/updates/{name}"])
        if f"{here}/squares/{name}" in arrays:
            owner.correction.mean_squares[name] = np.array(arrays[f"{here}/squares/{name}"])
    for number in arrays[f"{here}/has_pulled"].tolist():
        owner.pulled[number] = _pulled(owner, f"{here}/pulled/{number}", arrays)
    while f"{here}/held/{len(owner.consistency.held)}/push" in arrays:
        at = f"{here}/held/{len(owner.consistency.held)}"
        gradients = {name: _gradient(shard.variable, f"{at}/gradient/{name}", arrays)
                     for name, shard in owner.shards.items()}
        owner.consistency.held.append(Push(*arrays[f"{at}/push"].tolist(), gradients,
                                           _pulled(owner, f"{at}/pulled", arrays)))
    worker.clock, asked = arrays[f"{mine}/clock"].tolist()
    if asked:
        worker.clock -= 1
        serving.pull({owner: (bool(arrays[over][0]), _below(f"{mine}/answer/{owner}/value/", arrays))
                      for owner in range(n) if (over := f"{mine}/answer/{owner}/over") in arrays})
    return float(arrays[f"{ROOT}/worker/0/seconds"][0])


def _gradient(variable, at, arrays):
    """Return a gradient in new arrays, which its owner may write to."""
    if not variable.sparse:
        return np.array(arrays[f"{at}/"])
    return RowGradient(arrays[f"{at}/ids"], np.array(arrays[f"{at}/rows"]))


def _of_pulled(at, pulled):
    """Return the arrays of what a worker has pulled. at is ... for a dense variable: then no rows are stored."""
    return {f"{at}/{name}/{part}": np.asarray(array) for name, what in pulled.items()
            for part, array in what._asdict().items() if array is not None and array is not ...}


def _pulled(owner: Owner, at, arrays):
    return {name: Pulled(arrays.get(f"{at}/{name}/at", ...), arrays[f"{at}/{name}/updates"],
                         arrays.get(f"{at}/{name}/values")) for name in owner.shards}


def _below(at, arrays):
    return {name.removeprefix(at): array for name, array in arrays.items() if name.startswith(at)}
