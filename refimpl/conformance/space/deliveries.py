"""Wrong deliveries: a rank gets another rank's sum, an old one, its own gradient, a part, or another order."""

from dataclasses import dataclass, replace
from typing import Callable

import numpy as np

from refimpl.conformance.bounds import Expected, bound, finite
from refimpl.conformance.case import Rows, numbers_of, with_numbers
from refimpl.conformance.space.contributions import CHANGES, NARROW, alike, of_arrays, of_numbers, of_rows
from refimpl.conformance.space.deviation import Deviation, Impossible, Place, joined, parametrised
from refimpl.plain.adding.rows import merge_occurrences


def exactly(part, variable) -> Expected:
    """Return a rank's own gradient as its result. Rows with the same id are added."""
    if not isinstance(part, Rows):
        value = np.asarray(part, np.float64)
        return Expected(value, np.zeros(value.shape), variable.dtype)
    merged = merge_occurrences(part)
    return Expected(merged, finite(bound(len(part.ids), np.abs(merged.rows), variable.dtype)), variable.dtype)


def _changed(change):
    """Change what a rank gets, with a tolerance for rounding: change(part, variable)."""
    def changed(want, machine, place):
        near = [change(with_numbers(want.value, lambda x, s=sign: x + s * want.tolerance), place.variable)
                for sign in (-1, 0, 1)]
        numbers = [numbers_of(part) for part in near]
        low, high = np.min(numbers, axis=0), np.max(numbers, axis=0)
        tolerance = (high - low) / 2 + bound(2, np.abs(numbers[1]), want.dtype)
        return replace(want, value=with_numbers(near[1], lambda x: (low + high) / 2), tolerance=finite(tolerance))

    return changed


def _own(want, machine, place):
    """The receiver's own gradient."""
    if place.rank is None or machine.case.ranks == 1:
        raise Impossible
    return exactly(machine.contribution(place), place.variable)


@parametrised
def _at_step(step, want, machine, place):
    """The result of another step: step(this step, number of steps) -> its number."""
    return machine.total(replace(place, step=step(place.step, machine.steps)))


def _own_ids_last_rows(want, machine, place):
    """Later calls overwrite the rows of this call, but not its row numbers."""
    if not isinstance(want.value, Rows):
        raise Impossible
    rows, tolerance = want.value.rows.copy(), np.array(np.broadcast_to(want.tolerance, want.value.rows.shape))
    for step in range(place.step + 1, machine.steps):
        later = machine.total(replace(place, step=step))
        rows[:len(later.value.ids)] = later.value.rows[:len(rows)]
        tolerance[:len(later.value.ids)] = np.broadcast_to(later.tolerance, later.value.rows.shape)[:len(rows)]
    return replace(want, value=Rows(want.value.ids, rows), tolerance=tolerance)


def _accumulated(want, machine, place):
    """The sum of this step and of all earlier ones: the buffer is not cleared."""
    parts = [*(machine.total(replace(place, step=s)).value for s in range(place.step)), want.value]
    sizes = numbers_of(joined([with_numbers(part, np.abs) for part in parts]))
    return replace(want, value=joined(parts), tolerance=finite(bound(8 * len(parts), sizes, want.dtype)))


@parametrised
def _of_last_alike(order, step, want, machine, place):
    """The result of the last dense variable of the same shape. order(names): in which they are written."""
    if place.variable.sparse or place.rank is None:
        raise Impossible
    written = map(machine.case.variable, order(machine.order(place)))
    last = [v for v in written if alike(v, place.variable)][-1]
    return machine.total(replace(place, step=step(place.step, machine.steps), variable=last))


@parametrised
def _of_rank_alone(source, want, machine, place):
    """Every rank gets one rank's gradient as it is."""
    if source not in machine.group:
        raise Impossible
    return exactly(machine.contribution(Place(place.step, source, place.variable)), place.variable)


@dataclass(frozen=True)
class OnGrid(Expected):
    """A value without more digits than a narrower dtype has: cast(array) does not change it."""

    cast: Callable | None = None


@parametrised
def _narrow(dtype, cast, want, machine, place):
    """Numbers pass through a narrower dtype somewhere: they have only its digits, and these are right."""
    numbers = numbers_of(want.value)
    if np.dtype(want.dtype).itemsize <= (4 if dtype == "float32" else 2) or np.array_equal(numbers, cast(numbers)):
        raise Impossible
    eps, own = EPS[dtype], float(np.finfo(want.dtype).eps)
    tolerance = 2 * want.tolerance * eps / own + 2 * eps * np.abs(numbers)
    return OnGrid(want.value, tolerance, want.dtype, None, cast)


EPS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7, "bfloat16, cut off": 2.0**-7}


def _overflowed(want, machine, place):
    """inf where a sum of halves is larger than the largest half."""
    if want.dtype != "float16" or isinstance(want.value, Rows):
        raise Impossible
    parts = [machine.contribution(Place(place.step, r, place.variable)) for r in machine.group]
    with np.errstate(over="ignore"):
        total = np.sum(np.stack(parts).astype(np.float64), axis=0).astype(np.float16).astype(np.float64)
    return replace(want, value=np.where(np.isfinite(total), want.value, total))


SIMPLE = (
    ("not-reduced", "each rank gets its own gradient back: the reduction does nothing", _own),
    ("buffer-reused", "a rank gets the step before's result", _at_step(lambda s, n: max(0, s - 1))),
    ("view-of-buffer", "a result is a view of a buffer that the next call reuses: each shows what the last call left",
     _at_step(lambda s, n: n - 1)),
    ("view-of-buffer", "a result is a view of one of two buffers that calls use in turn: it shows a later call's",
     _at_step(lambda s, n: n - 1 - (n - 1 - s) % 2)),
    *(("buffer-shared", f"results of one shape share a buffer: each shows the last variable {which} of {call} call",
       _of_last_alike(order, step))
      for which, order in (("that the rank produced", list), ("by name", sorted))
      for call, step in (("the same", lambda s, n: s), ("the last", lambda s, n: n - 1))),
    ("view-of-buffer", "a result's rows are a view of a buffer that the next call reuses: under the row numbers of one "
     "call stand rows of later ones", _own_ids_last_rows),
    ("not-cleared", "results add up from step to step: a buffer is not cleared", _accumulated),
    *((code, words.format("the result"), _changed(change)) for code, words, change in CHANGES),
    ("zeroed", "the result is 0", _changed(of_numbers(lambda a: a * 0))),
    ("half-overflow", "the float16 sum overflows before it is divided: divide first, or add in float32", _overflowed),
    ("elements-reversed", "the elements of a dense result come in reverse",
     _changed(of_arrays(lambda a: a.reshape(-1)[::-1].reshape(a.shape)))),
    *(("rows-rotated", f"rows go to the {which} of the result",
       _changed(of_rows(lambda ids, a, v, by=by: (ids, np.roll(a, by, 0)))))
      for by, which in ((1, "next row number"), (-1, "row number before"))),
    ("ids-plus-one", "row numbers of the result are one too large", _changed(of_rows(lambda ids, a, v: (ids + 1, a)))),
    *(("lost-digits", f"the numbers have no more digits than {dtype} has: somewhere they pass through it",
       _narrow(dtype, cast)) for dtype, cast in NARROW.items()),
)
"""(code, words, change of what a rank gets)."""


def deviations(ranks: int) -> list[Deviation]:
    """Return those that make sense on a number of ranks. Local."""
    alone = [Deviation("one-rank-alone", f"every rank gets rank {r}'s gradient alone: it is handed on, not aggregated",
                       {"delivered": _of_rank_alone(r)}) for r in range(ranks if ranks > 1 else 0)]
    return [*(Deviation(code, words, {"delivered": change}) for code, words, change in SIMPLE), *alone]
