"""Held-out loss, perplexity and accuracy: sums over all ranks that do not depend on their number."""

import math

import numpy as np

from kernels.arrays import aligned, read_only
from refimpl.gradients import ExactSum, leaves_of
from refimpl.training.checked.data import CheckedData
from refimpl.training.checked.model import CheckedModel
from refimpl.training.checked.values import check_number
from refimpl.training.trainer import Trainer
from refimpl.transport import CollectiveError


def check_can_judge(model, heldout):
    """Raise ValueError if there are held-out data, but the model cannot be evaluated on them. Local."""
    if heldout is not None and not hasattr(model, "evaluate"):
        raise ValueError(f"there are held-out data, but {type(model).__name__} has no evaluate: give it one "
                         "(models/protocol.py), or leave the held-out data out")


def evaluate(trainer: Trainer, heldout, steps: int | None = None) -> dict:
    """Return {"loss", "count", "perplexity"} or {..., "accuracy"} over one epoch of ``heldout``. Collective.

    heldout: a ``Data``.  steps: the largest number of its steps to evaluate; None: all.
    Every rank evaluates its microbatches with whole values of all variables, by ``model.evaluate(dense, tables,
    batch)``; see ``models.protocol``.
    """
    parameters, comm = trainer.parameters, trainer.comm
    model, heldout = CheckedModel(trainer.model), CheckedData(heldout)
    values = {v.name: parameters.collect(v.name, None, True, "evaluate") for v in parameters.variables}
    comm.settle()
    dense = {v.name: read_only(aligned(values[v.name])) for v in parameters.variables if not v.sparse}
    tables = {v.name: read_only(values[v.name]) for v in parameters.variables if v.sparse}
    sums: dict[str, list[float]] = {"loss": [], "count": [], "correct": []}

    def work():
        last = _steps(heldout, steps)
        for v in leaves_of(comm.rank, comm.size, heldout.microbatches):
            state: dict = {}
            for step in range(last):
                batch = heldout.microbatch(step, v)
                if batch is not None:
                    batch.state = state
                    for name, value in _checked(model.evaluate(dense, tables, batch)).items():
                        sums[name].append(value)
        if sums["correct"] and len(sums["correct"]) < len(sums["count"]):
            raise ValueError('evaluate returned "correct" for some microbatches only: return it for all, or for none')
        return np.stack([ExactSum().add(values).digits for values in sums.values()])

    digits = comm.together(work)
    totals = comm.share(digits, "evaluate").sum(axis=0)
    loss, count, correct = (ExactSum(row).value() for row in totals)
    if count != (said := sum(heldout.examples(step) for step in range(_steps(heldout, steps)))):
        raise CollectiveError(f"evaluate has counted {count:g} targets of the held-out data, but examples says "
                              f"{said}: each target must be in one microbatch, and count the number of targets")
    if not count:
        return {"loss": math.nan, "count": 0}
    result = {"loss": loss / count, "count": int(count)}
    if comm.share(np.array([len(sums["correct"])]), "evaluate").any():
        result["accuracy"] = correct / count
    else:
        result["perplexity"] = math.exp(min(loss / count, 700.0))
    return result


def _steps(heldout, steps) -> int:
    return heldout.steps_per_epoch if steps is None else min(steps, heldout.steps_per_epoch)


def _checked(result) -> dict:
    """Return the result of a model's ``evaluate``. Raises ValueError unless it has the known names and finite sums."""
    if not isinstance(result, dict) or not {"loss", "count"} <= set(result) <= {"loss", "count", "correct"}:
        told = sorted(result, key=str) if isinstance(result, dict) else type(result).__name__
        raise ValueError(f'evaluate returned {told}: return {{"loss": sum, "count": n}}, or "correct": k, too')
    for name, value in result.items():
        check_number(f"evaluate's {name!r}", value)
    told = {name: float(value) for name, value in result.items()}
    if not all(map(math.isfinite, told.values())):
        raise ValueError(f"evaluate returned {told}: a sum is not finite; lower the learning rate or clip the norm")
    whole = all(value == int(value) for name, value in told.items() if name != "loss")
    if not whole or not 0 <= told.get("correct", 0) <= told["count"]:
        raise ValueError(f"evaluate returned {told}: give the number of targets as count, and of right ones as correct")
    return result
