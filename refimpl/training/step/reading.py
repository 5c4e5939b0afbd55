"""A rank's microbatches of a step, read and looked at: the global batch's normaliser, arrays that nobody writes to."""

from dataclasses import replace

from kernels.arrays import read_only
from kernels.random import key_of
from models import Batch
from refimpl.training.step.calls import ask
from refimpl.training.step.check import check_needs
from refimpl.training.step.first_step import FIELDS, Kept, checksum, keep_batch


def read_microbatches(model, data, seed: int, step: int, carried, first: bool = False) -> tuple[dict, dict]:
    """Return microbatch -> its batch, and -> the rows it needs; None for one without examples. Local.

    carried: microbatch -> the state of its batch.  first: whether to look for what takes time to see, too.
    Raises ValueError for data and needs that are not what they must be (``models.data.Data``, ``models.Model``).
    """
    batches, needs, kept = {}, {}, Kept({})
    for v, state in carried.items():
        batch, rows = microbatch_of(data, step, v, key=key_of(seed, "microbatch", step, v), state=state), None
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
            _check_again(data, step, v, batch, kept)
    return batches, needs


def microbatch_of(data, step: int, v: int, **fields) -> Batch | None:
    """Return a microbatch as the data gives it, its arrays read-only; None for one without examples. Local.

    fields: what the trainer sets. Raises ValueError unless it is a microbatch of this step's global batch.
    """
    batch = data.microbatch(step, v)
    if batch is None:
        return None
    if not isinstance(batch, Batch):
        raise ValueError(f"the data's microbatch({step}, {v}) returned {type(batch).__name__}: it must return a Batch, "
                         "or None if no target falls to it")
    if batch.normaliser != (examples := data.examples(step)):
        raise ValueError(f"microbatch {v} of step {step} has normaliser {batch.normaliser!r}; its global batch has "
                         f"{examples!r} targets, as the data's examples({step}) says: give every one of its "
                         "microbatches that as its normaliser")
    return replace(batch, **{field: read_only(getattr(batch, field)) for field in FIELDS}, **fields)


def _check_kept(kept):
    """Raise ValueError if arrays have changed while later microbatches were read."""
    if written := kept.written():
        kind, v, name = written[0]
        what = f"batch.{name}" if kind == "batch" else f"rows_needed of {name!r}"
        raise ValueError(f"{what} of microbatch {v} has changed while others were read: give each microbatch arrays of "
                         "its own")


def _check_again(data, step, v, batch, kept):
    """Raise ValueError unless the data gives the same microbatch when asked again."""
    again = microbatch_of(data, step, v)
    same = (again is None) == (batch is None)
    if not same or batch and any(checksum(getattr(again, field)) != kept.sums["batch", v, field][1]
                                 for field in FIELDS):
        raise ValueError(f"the data's microbatch({step}, {v}) is another one when it is asked for again: it must be a "
                         "function of step and number alone")
