"""A user's model with checks of its answers. It must also not write to the arrays that it is given.

These are read-only. Some libraries ignore this flag (see ``written``). So in the first step of a session checksums are
compared, which takes time. In every step the first and last rows of row gradients are compared, because these are kept
until the exchange.
"""

import re
import traceback
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from kernels import RowGradient
from kernels.reductions import all_finite
from models.protocol import nobody_waits
from refimpl.training.checked.values import check_asked_for, check_names, check_needs, check_number, values_of
from refimpl.training.checked.written import Kept, checksum
from refimpl.training.step.arriving import Arriving
from refimpl.training.step.scalars import Scalars, lies_there, not_finite

READ_ONLY = re.compile("read-?only|WRITEABLE")  # words of NumPy, Cython and Numba


class CheckedModel:
    """A ``models.Model``. Local. Raises ValueError, with the model and the place, if the model breaks the protocol.

    first: whether this is the first step of the session.  may_overflow: whether gradients may be infinite.
    scalars: of the current step. On a GPU gradients are checked there at the end of the step, because a check waits.
    """

    def __init__(self, model):
        self.model, self.name, self.first = model, type(getattr(model, "model", model)).__name__, True
        self.by_name = {v.name: v for v in model.variables}
        self.may_overflow = hasattr(model, "loss_scale")
        self.asked: dict[int, Mapping] = {}  # microbatch -> what it needs
        self.forget()

    def __getattr__(self, name):
        return getattr(self.model, name)

    def forget(self):
        """Drop the arrays of the last step, whose GPU memory the next step needs."""
        self.scalars, self.row_gradients = Scalars(), []  # (variable, microbatch, gradient, what it was)

    def end_step(self):
        """Raise ValueError if a row gradient was written to after it was returned. Call it after all microbatches."""
        for name, microbatch, gradient, before in self.row_gradients:
            if self._mark(gradient) != before:
                raise _used_again(name, microbatch)
        self.first = False

    def needs(self, batches: dict) -> dict:
        """Return microbatch -> (name -> the rows it needs), or None if it has no examples. batches: of a step."""
        self.asked, kept = {}, Kept()
        for v, batch in batches.items():
            self.asked[v] = needs = None if batch is None else self.rows_needed(batch)
            for name, ids in (needs or {}).items() if self.first else ():
                kept.keep((v, name), ids)
        if label := kept.written():
            raise ValueError(f"rows_needed of {label[1]!r} of microbatch {label[0]} has changed while others were "
                             "read: give each microbatch arrays of its own")
        return self.asked

    def rows_needed(self, batch):
        """Return name -> (k,) int64 sorted unique row numbers of each sparse variable."""
        with self._unwritten("rows_needed", batch):
            needs = self._ask("rows_needed", batch)
        check_needs(self.variables, needs)
        return needs

    def evaluate(self, dense, tables, batch):
        """Return the result of the model's ``evaluate``."""
        return self._ask("evaluate", dense, tables, batch)

    def features(self, dense, batch):
        """Return the result of the model's ``features`` (``models.protocol.Sharded``)."""
        with self._unwritten("features", batch) as given:
            return self._ask("features", _noted(dense, "dense", given), batch)

    def features_backward(self, grad, saved, dense, ready):
        """Return the result of the model's ``features_backward``."""
        with self._unwritten("features_backward") as given:
            return self._ask("features_backward", grad, saved, _noted(dense, "dense", given), ready)

    def loss_and_gradients(self, dense, rows, batch):
        """Return (loss, gradients) of a microbatch. Gradients passed to ``batch.ready`` are checked at once."""
        v, leave, final = batch.index, batch.ready, HandedOut(batch.index, self.first)
        leaves = leave is not nobody_waits  # else all are looked at together: on a GPU that takes fewer launches

        def ready(gradients):
            new = final.take(gradients, self.by_name)
            if leaves:
                self.check_gradients(new, v, self.by_name, self.asked[v])
            leave(gradients)

        if leaves or self.first:
            batch.ready = ready
        with self._unwritten("loss_and_gradients", batch) as given:
            loss, gradients = self._computed(v, _noted(dense, "dense", given), _noted(rows, "rows", given), batch)
        final.check(gradients)
        self._keep(gradients, v, given)
        check_names(self.by_name, gradients)
        rest = {name: g for name, g in gradients.items() if not (leaves and name in final.found)}
        self.check_gradients(rest, v, self.by_name, self.asked[v])
        return loss, gradients

    def check_gradients(self, gradients, microbatch: int, variables, needs):
        """Raise ValueError unless gradients have the right kinds, shapes and rows, and are finite. All by name."""
        there = {}
        for name, gradient in gradients.items():
            values = values_of(variables[name], gradient, needs.get(name))
            if variables[name].sparse:
                check_asked_for(name, gradient.ids, needs[name])
            if lies_there(values):
                there[name, microbatch] = values
            elif not (self.may_overflow or all_finite(values)):
                raise not_finite(name, microbatch)
        if there:
            self.scalars.watch(list(there), list(there.values()))

    def _computed(self, microbatch, dense, rows, batch):
        result = self._ask("loss_and_gradients", dense, rows, batch)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise ValueError(f"loss_and_gradients returned {type(result).__name__}: it must return two things, the "
                             "loss and the dict of gradients")
        if not isinstance(result[1], Mapping):
            raise ValueError(f"loss_and_gradients returned {type(result[1]).__name__} as gradients: they must be a "
                             "dict, name of each variable -> its gradient")
        check_number(f"the loss of microbatch {microbatch}", result[0])
        return result

    def _ask(self, method: str, *arguments):
        """Return model.method(*arguments). An error for a forbidden write names its line (NumPy, Numba, Cython)."""
        try:
            return getattr(self.model, method)(*arguments)
        except (ValueError, TypeError, BufferError) as problem:
            if not READ_ONLY.search(str(problem)):
                raise
            where = traceback.extract_tb(problem.__traceback__)[-1]
            raise ValueError(f"{self.name}.{method} writes to an array that it may only read ({problem}), at "
                             f"{Path(where.filename).name}:{where.lineno}: {where.line}. Values, rows and batches "
                             "belong to the training: change a copy, np.array(...)") from problem

    @contextmanager
    def _unwritten(self, method: str, batch=None):
        """In the first step: raise ValueError if the batch, or an array noted in the block, was written to."""
        given = Kept()
        if self.first and batch is not None:
            given.keep_batch(batch, "batch")
        yield given if self.first else None
        if label := given.written():
            told = f"batch.{label[1]}" if label[0] == "batch" else f"{label[0]}[{label[1]!r}]"
            where = "the first step" if batch is None else f"microbatch {batch.index}"
            raise ValueError(f"{self.name}.{method} has written to {told} in {where}: it belongs to the training; "
                             "change a copy, np.array(...)")

    def _keep(self, gradients, microbatch, given):
        """Note row gradients, which are kept until the exchange. Nothing else may use their memory."""
        for name, gradient in gradients.items():
            if not isinstance(gradient, RowGradient):
                continue
            for other, earlier, kept, _ in self.row_gradients:
                if other == name and _share_memory(gradient.rows, kept.rows):
                    raise _used_again(name, earlier)
            for (kind, label), (value, _) in (given or {}).items():
                if kind != "batch" and _share_memory(gradient.rows, value):
                    raise ValueError(f"the gradient of {name!r} in microbatch {microbatch} shares memory with "
                                     f"{kind}[{label!r}]; it is kept until the step's exchange: give it a copy")
            self.row_gradients.append((name, microbatch, gradient, self._mark(gradient)))

    def _mark(self, gradient):
        """Return a mark of a row gradient's values: a checksum in the first step, later its first and last row.

        If a model uses the arrays again, the mark differs. Arrays on a GPU are not read, because that would wait for
        it.
        """
        parts = gradient.ids, gradient.rows
        if self.first:
            return [checksum(part) for part in parts]
        return all(isinstance(part, np.ndarray) and part.ndim and len(part) for part in parts) and [
            part[end].tobytes() for part in parts for end in (0, -1)]


class HandedOut:
    """The gradients of a microbatch that were passed to ``batch.ready``, and so are final. Local.

    found: name -> gradient.  watched: whether to detect writes to them.
    """

    def __init__(self, microbatch: int, watched: bool):
        self.microbatch, self.watched, self.found, self.kept = microbatch, watched, {}, Kept()

    def take(self, gradients, names) -> dict:
        """Note gradients that are ready; return the new ones among ``names``."""
        new = {name: g for name, g in gradients.items() if name not in self.found and name in names}
        self.found |= new
        if self.watched:
            self.kept.keep_gradients(new, self.microbatch)
        return new

    def check(self, returned):
        """Raise ValueError if the returned gradients differ from those that were ready."""
        what = "then another one was returned"
        changed = [name for name, gradient in self.found.items() if returned.get(name, gradient) is not gradient]
        if label := self.kept.written():
            changed, what = [label[0]], "and then was written to"
        if changed:
            raise ValueError(f"the gradient of {changed[0]!r} in microbatch {self.microbatch} was ready, {what}: give "
                             "batch.ready only gradients that are final")


def _used_again(name, microbatch) -> ValueError:
    return ValueError(f"the row gradient of {name!r} in microbatch {microbatch} was written to after it was returned; "
                      "it is kept until the step's exchange: give each one arrays of its own")


def _share_memory(one, other) -> bool:
    """Return whether two NumPy arrays may overlap in memory."""
    return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.may_share_memory(one, other)


def _noted(values, kind, kept):
    """Return a mapping with the same values that notes each value when it is looked up. kept: where; None: nowhere."""
    if kept is None:
        return values
    found = Arriving(values, lambda name: kept.keep((kind, name), values[name]))
    return dict(found) if isinstance(values, dict) else found
