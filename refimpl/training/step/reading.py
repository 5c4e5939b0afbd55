"""A rank's microbatches of a step, read and looked at: the global batch's normaliser, arrays that nobody writes to."""

import copy
import math
import numbers

from kernels.arrays import read_only
from kernels.random import key_of
from models import Batch
from refimpl.training.step.calls import ask
from refimpl.training.step.check import check_needs
from refimpl.training.step.first_step import FIELDS, Kept, checksum, keep_batch


def read_microbatches(model, data, seed: int, step: int, carried, first: bool = False) -> tuple[dict, dict, int]:
    """Return microbatch -> its batch, and -> the rows it needs, None without examples; the step's examples. Local.

    carried: microbatch -> the state of its batch.  first: whether to look for what takes time to see, too.
    Raises ValueError for data and needs that are not what they must be (``models.data.Data``, ``models.Model``).
    """
    batches, needs, kept, examples = {}, {}, Kept({}), examples_of(data, step)
    for v, state in carried.items():
        key = key_of(seed, "microbatch", step, v)
        batch, rows = microbatch_of(data, step, v, examples, key=key, state=state), None
        if batch is not None:
            if first:
                keep_batch(kept, batch, "batch", v)
            rows = ask(model, "rows_needed", batch)
            check_needs(model.variables, rows)
            if first:
                for name, ids in rows.items():
                    kept.keep(("rows", v, name), ids)
        batches[v], needs[v] = batch, rows
    if first:
        _check_kept(kept)
        for v, batch in batches.items():
            _check_again(data, step, v, examples, batch, kept)
    return batches, needs, examples


def examples_of(data, step: int) -> int:
    """Return how many targets the data says that the step's global batch has. Local. Raises ValueError for nonsense."""
    said = data.examples(step)
    whole = isinstance(said, numbers.Real) and not isinstance(said, bool) and math.isfinite(said) and said == int(said)
    if not whole or said < 0:
        raise ValueError(f"the data's examples({step}) returned {said!r:.80}: it must return the number of targets in "
                         "the global batch of that step")
    return int(said)


def microbatch_of(data, step: int, v: int, examples: int | None, **fields) -> Batch | None:
    """Return a microbatch as the data gives it, its arrays read-only; None for one without examples. Local.

    examples: of its global batch; None: it is held out, and its normaliser not used.  fields: what the trainer sets.
    Raises ValueError unless it is a microbatch of this step's global batch.
    """
    batch = data.microbatch(step, v)
    if batch is None:
        return None
    if not isinstance(batch, Batch):
        raise ValueError(f"the data's microbatch({step}, {v}) returned {type(batch).__name__}: it must return a Batch, "
                         "or None if no target falls to it")
    if examples is not None and batch.normaliser != examples:
        raise ValueError(f"microbatch {v} of step {step} has normaliser {batch.normaliser!r}; its global batch has "
                         f"{examples!r} targets, as the data's examples({step}) says: give every one of its "
                         "microbatches that as its normaliser")
    batch = copy.copy(batch)  # whatever else a batch of one's own has
    for field, value in {**{field: read_only(getattr(batch, field)) for field in FIELDS}, **fields}.items():
        setattr(batch, field, value)
    return batch


def _check_kept(kept):
    """Raise ValueError if arrays have changed while later microbatches were read."""
    if written := kept.written():
        kind, v, name = written[0]
        what = f"batch.{name}" if kind == "batch" else f"rows_needed of {name!r}"
        raise ValueError(f"{what} of microbatch {v} has changed while others were read: give each microbatch arrays of "
                         "its own")


def _check_again(data, step, v, examples, batch, kept):
    """Raise ValueError unless the data gives the same microbatch when asked again."""
    again = microbatch_of(data, step, v, examples)
    same = (again is None) == (batch is None)
    if not same or batch and any(checksum(getattr(again, field)) != kept.sums["batch", v, field][1]
                                 for field in FIELDS):
        raise ValueError(f"the data's microbatch({step}, {v}) is another one when it is asked for again: it must be a "
                         "function of step and number alone. Where it draws random numbers (from NumPy or random), "
                         f"let a generator of its own draw them: np.random.default_rng([seed, {step}, {v}])")
