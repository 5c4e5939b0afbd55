"""Wrong contributions of a rank to a sum: wrong values, wrong row numbers, or those of another gradient.

Some change elements or rows one by one. The sum that a rank gets may be changed in the same ways (``deliveries``).
"""

from dataclasses import replace

import numpy as np

from refimpl.conformance.case import Rows, with_numbers
from refimpl.conformance.cases.bags import bags_of
from refimpl.conformance.space.by_rule import miscounts
from refimpl.conformance.space.deviation import Deviation, Impossible, concatenated, parametrised
from refimpl.plain.adding.bags import Bags


def of_numbers(change):
    """Return the change of all numbers: change(array). Local."""
    return lambda part, variable: with_numbers(part, change)


def of_arrays(change):
    """Return the change of dense gradients alone: change(array). Local."""
    return lambda part, variable: part if isinstance(part, Rows) else change(part)


def of_rows(change):
    """Return the change of row gradients that are not empty: change(ids, rows, variable) -> (ids, rows). Local."""
    return lambda part, variable: (Rows(*change(part.ids, part.rows, variable))
                                   if isinstance(part, Rows) and len(part.ids) else part)


def some_rows(kept):
    """Return the change that keeps only some rows: kept(ids, variable) -> which. Local."""
    return of_rows(lambda ids, rows, v: (ids[kept(ids, v)], rows[kept(ids, v)]))


CHANGES = (
    ("denormals-flushed", "denormal numbers are flushed to zero", lambda part, v: with_numbers(
        part, lambda a: np.where(np.abs(a) < np.finfo(v.dtype).tiny, 0, a))),
    ("negated", "{} changes its sign", of_numbers(np.negative)),
    ("small-lost", "numbers below 1e-5 are lost", of_numbers(lambda a: np.where(np.abs(a) < 1e-5, 0, a))),
    ("clamped", "{} is clamped to [-1, 1]", of_numbers(lambda a: np.clip(a, -1, 1))),
    ("nan-to-zero", "what is not finite becomes 0", of_numbers(lambda a: np.where(np.isfinite(a), a, 0))),
    ("columns-reversed", "the elements of the last axis come in reverse",
     of_numbers(lambda a: np.flip(a, -1) if a.ndim else a)),
    ("columns-rotated", "the elements of the last axis are one place too far",
     of_numbers(lambda a: np.roll(a, 1, -1) if a.ndim else a)),
    ("columns-rotated", "the elements of the last axis are one place too early",
     of_numbers(lambda a: np.roll(a, -1, -1) if a.ndim else a)),
    ("order-of-axes", "the elements of {} are in Fortran's order, not in C's",
     of_arrays(lambda a: np.reshape(np.ravel(a, "F"), a.shape))),
    ("rows-reversed", "rows come in reverse under their row numbers", of_rows(lambda ids, a, v: (ids, a[::-1]))),
    ("row-lost", "the last row of {} is lost", some_rows(lambda ids, v: slice(-1))),
    ("row-lost", "the first row of {} is lost", some_rows(lambda ids, v: slice(1, None))),
    ("row-zero-lost", "row 0 of {} is lost: it is taken for padding", some_rows(lambda ids, v: ids != 0)),
)
"""(code, words, change(part, variable)). {} is the name of the changed array. The most frequent come first."""


def brain(array, nearest: bool):
    """Return float32 numbers as bfloat16 holds them, rounded or cut off. Local."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    up = np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)) if nearest else np.uint32(0)
    return ((bits + up) & np.uint32(0xFFFF0000)).view(np.float32).reshape(array.shape).astype(array.dtype)


NARROW = {"float16": lambda a: a.astype(np.float16).astype(a.dtype), "bfloat16": lambda a: brain(a, True),
          "bfloat16, cut off": lambda a: brain(a, False), "float32": lambda a: a.astype(np.float32).astype(a.dtype)}
"""Narrower dtype -> function that rounds an array to it."""


def _changed(change):
    """Return the change of a contribution: change(part, variable)."""
    return lambda part, machine, place: change(part, place.variable)


@parametrised
def _narrowed(dtype, cast, part, machine, place):
    if np.dtype(place.variable.dtype).itemsize <= (4 if dtype == "float32" else 2):
        raise Impossible
    return with_numbers(part, cast)


def _ids(change):
    """Change row numbers: change(ids, variable)."""
    return _changed(of_rows(lambda ids, rows, v: (np.asarray(change(ids, v), np.int64), rows)))


def _cast(dtype):
    return _ids(lambda ids, variable: ids.astype(dtype).astype(np.int64))


def _wide_offsets(ids, variable):
    """An offset, row times width, in 32 bits, and the row that it stands for."""
    width = int(np.prod(variable.shape[1:]))
    return (ids * width).astype(np.int32).astype(np.int64) // width


@parametrised
def _other_step(shift, part, machine, place):
    step = place.step + shift
    return machine.given(replace(place, step=step)) if 0 <= step < machine.steps else part


def _last_there(part, machine, place):
    """Where a rank has no gradient, the last one that it had."""
    there = [step for step, ranks in enumerate(machine.case.steps[:place.step + 1])
             if ranks[place.rank][place.variable.name] is not None]
    return machine.given(replace(place, step=there[-1])) if there else part


@parametrised
def _ids_of_rank(source, part, machine, place):
    """Rows under the ids of one rank, position by position."""
    if not isinstance(part, Rows) or machine.case.ranks == 1:
        raise Impossible
    if len({len(machine.given(replace(place, rank=r)).ids) for r in machine.group}) > 1:
        return part
    return Rows(machine.given(replace(place, rank=source)).ids, part.rows)


def _counts_of_first(part, machine, place):
    """A rank's rows of all variables, one after the other, split by the numbers of rows of the first rank."""
    names, own, counts = machine.order(place), [], [0]
    for name in names:
        at = replace(place, variable=machine.case.variable(name))
        own.append(machine.given(at))
        counts.append(len(machine.given(replace(at, rank=machine.group[0]))[0]) if at.variable.sparse else 0)
    if not all(isinstance(p, Rows) for p in own) or len({p.rows.shape[1] for p in own}) > 1:
        raise Impossible
    first, end = np.cumsum(counts)[names.index(place.variable.name):][:2]
    return Rows(*(x[first:end] for x in concatenated(own)))


def alike(a, b) -> bool:
    """Return whether gradients of two variables fit into each other's places. Local."""
    return a.sparse == b.sparse and (a.shape[1:] == b.shape[1:] if a.sparse else a.shape == b.shape)


@parametrised
def _of_neighbour(shift, part, machine, place):
    """The gradient of another variable. shift: 1: the next by name, 2: the next produced; -1, -2: the one before."""
    names = machine.order(place) if abs(shift) == 2 else sorted(v.name for v in machine.case.variables)
    at = names.index(place.variable.name) + shift // abs(shift)
    other = machine.case.variable(names[at]) if 0 <= at < len(names) else place.variable
    return machine.given(replace(place, variable=other)) if alike(other, place.variable) else part


@parametrised
def _ids_of_neighbour(shift, part, machine, place):
    """Rows under the ids of the next sparse variable by name (shift 1), or of the one before (-1)."""
    names = sorted(v.name for v in machine.case.variables if v.sparse)
    if not isinstance(part, Rows) or len(names) < 2:
        raise Impossible
    other = names[(names.index(place.variable.name) + shift) % len(names)]
    ids = machine.given(replace(place, variable=machine.case.variable(other))).ids
    return Rows(ids[:len(part.ids)], part.rows[:len(ids)])


@parametrised
def _tail(kept, array):
    """Keep the first kept(n) of n elements. The others become 0."""
    flat = np.array(array).reshape(-1)
    flat[kept(flat.size):] = 0
    return flat.reshape(array.shape)


def _column(which):
    return _changed(of_rows(lambda ids, rows, v: (ids, np.where(np.arange(rows.shape[1]) == which % rows.shape[1], 0,
                                                                rows))))


@parametrised
def _padded(row, part, machine, place):
    """Pad rows to the longest contribution by repeating the last row. row(ids) -> the row number of the copies."""
    if not isinstance(part, Rows) or not len(part.ids):
        return part
    more = max(len(machine.given(replace(place, rank=r)).ids) for r in machine.group) - len(part.ids)
    return Rows(np.concatenate([part.ids, np.full(more, row(part.ids))]),
                np.concatenate([part.rows, np.repeat(part.rows[-1:], more, axis=0)]))


EARLY = ": a buffer is used again before its transfer ended"

SIMPLE = (
    ("ids-float32", "row numbers pass through float32", _cast(np.float32)),
    ("ids-int32", "row numbers pass through int32", _cast(np.int32)),
    ("ids-int16", "row numbers pass through int16", _cast(np.int16)),
    ("offsets-int32", "a row's offset, its number times the width, is a 32-bit integer: it overflows",
     _ids(_wide_offsets)),
    ("ids-plus-one", "row numbers are one too large: they are counted from 1",
     _ids(lambda ids, v: (ids + 1) % v.shape[0])),
    ("ids-minus-one", "row numbers are one too small", _ids(lambda ids, v: (ids - 1) % v.shape[0])),
    ("ids-clamped", "the last row's gradient goes to the row before: row numbers are clamped one too low",
     _ids(lambda ids, v: np.minimum(ids, v.shape[0] - 2))),
    ("ids-sorted-alone", "row numbers are sorted, their rows are not: rows go to other rows of the same rank",
     _ids(lambda ids, v: np.sort(ids))),
    *((code, words.format("each rank's gradient"), _changed(change)) for code, words, change in CHANGES),
    ("last-row-lost", "the very last row of the variable is dropped",
     _changed(some_rows(lambda ids, v: ids != v.shape[0] - 1))),
    ("padding-added", "row gradients are padded to the longest with row 0, and the padding is added",
     _padded(lambda ids: 0)),
    ("padding-added", "row gradients are padded to the longest with their last row, and the padding is added",
     _padded(lambda ids: ids[-1])),
    ("counts-of-rank-0", "rows of all variables are packed in one buffer, which is split by the row counts of rank 0",
     _counts_of_first),
    ("column-lost", "the last column of rows is lost", _column(-1)),
    ("column-lost", "the first column of rows is lost", _column(0)),
    ("element-lost", "the last element of a dense gradient is lost",
     _changed(of_arrays(_tail(lambda n: max(0, n - 1))))),
    ("tail-lost", "elements beyond a multiple of the number of ranks are lost",
     lambda part, m, p: part if isinstance(part, Rows) else _tail(lambda n: n // m.case.ranks * m.case.ranks)(part)),
    ("tail-lost", "elements beyond a multiple of 4 are lost", _changed(of_arrays(_tail(lambda n: n // 4 * 4)))),
    ("doubled", "gradients are counted twice", _changed(of_numbers(lambda a: a * 2))),
    ("halved", "gradients are halved", _changed(of_numbers(lambda a: a / 2))),
    *(("lost-digits", f"each rank's numbers pass through {dtype} before they are added", _narrowed(dtype, cast))
      for dtype, cast in NARROW.items()),
    ("absent-stale", "where a rank has no gradient of a variable, the last one that it had counts again", _last_there,
     lambda case: "absent" in case.needs),
    ("buffer-reused", f"the next step's gradients are in the sum{EARLY}", _other_step(1)),
    ("buffer-reused", f"the step before's gradients are in the sum{EARLY}", _other_step(-1)),
    *(("ids-of-another", f"variables are mixed up: rows of each with the ids of {which}", _ids_of_neighbour(shift))
      for shift, which in ((1, "the next"), (-1, "the one before"))),
    *(("buffer-reused", f"each variable's contribution is that of {which}{EARLY}", _of_neighbour(shift))
      for shift, which in ((1, "the next by name"), (-1, "the one before by name"), (2, "the next that the rank "
                           "produced"), (-2, "the one before that the rank produced"))),
)
"""(code, words, change of a contribution, and perhaps ``concerns``)."""

USES = (
    ("use-miscounted", "every use counted twice", lambda p: [*p, *p]),
    *(("use-miscounted", words, lambda p, change=change: [p[k] for k in change(range(len(p)))])
      for words, _, change in miscounts("use", 2)),
    ("uses-averaged", "the uses' gradients are averaged", lambda p: [with_numbers(x, lambda a: a / len(p)) for x in p]),
)
"""(code, words, change of the gradients of one variable's uses)."""


def _all(bags, ids):
    return np.full(len(ids), True)


def _of_mean(change):
    """Change by what a bag's mean is divided: change(number of look-ups of each bag, at least 1)."""
    return {"divisors": lambda bags, counts: change(counts) if bags.pooling == "mean" else np.ones_like(counts)}


def _distinct(bags, ids):
    """Count a row once in each bag."""
    return bags.kept(ids) & np.isin(np.arange(len(ids)), np.unique([bags.bag, ids], axis=1, return_index=True)[1])


BAGS = (
    ("padding-learned", "the padding index's row gets a gradient", {"kept": _all, "counted": Bags.kept}),
    ("padding-counted", "the padding index is counted in a bag's mean", {"counted": _all}),
    ("padding-ignored", "the padding index is taken for a row like any other", {"kept": _all}),
    ("padding-zero", "row 0 is taken for the padding index, whatever that is",
     {"kept": lambda bags, ids: ids != 0 if bags.padding is not None else _all(bags, ids)}),
    ("bags-summed", "the gradient of a bag's mean is not divided by the number of its look-ups",
     {"divisors": lambda bags, counts: np.ones_like(counts)}),
    ("bags-averaged", "the gradient of a bag's sum is divided by the number of its look-ups",
     {"divisors": lambda bags, counts: counts}),
    ("divided-by-bags", "the gradient of a bag is divided by the number of bags, not of its look-ups",
     {"divisors": lambda bags, counts: np.full_like(counts, len(counts))}),
    ("offsets-as-ends", "offsets are taken for the ends of bags: a look-up gets the gradient of the next bag",
     {"bag_of": lambda bags, at, offsets: np.minimum(Bags.bag_of(bags, at, offsets) + 1, len(offsets) - 1)}),
    ("repeats-counted-once", "a bag's mean counts look-ups of the same row once", {
        "bag_of": lambda bags, at, offsets: vars(bags).setdefault("bag", Bags.bag_of(bags, at, offsets)),
        "counted": _distinct}),
    *(("bag-miscounted", f"a bag's mean is divided by {words}", _of_mean(change)) for words, change in (
        ("one more than its number of look-ups", lambda counts: counts + 1),
        ("one less than its number of look-ups", lambda counts: np.maximum(1, counts - 1)),
        ("the number of look-ups of the bag before", lambda counts: np.roll(counts, 1)),
        ("the number of look-ups of the next bag", lambda counts: np.roll(counts, -1)),
        ("the number of look-ups of the largest bag", lambda counts: np.full_like(counts, counts.max())),
        ("the number of look-ups of the first bag", lambda counts: np.full_like(counts, counts[0])))),
)
"""(code, words, methods in place of those of ``refimpl.plain.adding.bags``)."""


@parametrised
def _of_bags(methods, right, machine, place):
    return type("Mistaken", (Bags,), methods)(**machine.case.settings["bags"]).rows(*bags_of(place.rank))


def deviations(ranks: int) -> list[Deviation]:
    """Return those that make sense on a number of ranks. Local."""
    found = [Deviation(code, words, {"contribution": change}, *concerns) for code, words, change, *concerns in SIMPLE]
    found += [Deviation("added-by-position", "row gradients are added position by position, under the ids of rank "
                        f"{r}: rows of different ids are mixed", {"contribution": _ids_of_rank(r)})
              for r in range(ranks)]
    found += [Deviation(code, words, {"contribution": _of_bags(methods)}, lambda case: case.kind == "bags")
              for code, words, methods in BAGS]
    return found + [Deviation(code, f"of a variable that is read at two places {words}",
                              {"uses": lambda parts, machine, place, how=how: how(parts)}) for code, words, how in USES]
