"""Hypotheses about values: nothing was reduced, wrong divisors and roots, overflow, wrong counts, digits lost."""

from dataclasses import replace

import numpy as np

from refimpl.conformance.case import numbers_of, with_numbers
from refimpl.conformance.diagnose.diagnosis import Diagnosis, explains, failing, flat, names_in_words, with_changes
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.rules.aggregate import Wanted, aggregate, aggregate_dense
from refimpl.conformance.semantics import Semantics


def not_reduced(evidence, verdict):
    """Every rank got its own contribution back, whole or divided."""
    case = evidence.case
    if case.kind not in ("dense", "rows", "mixed", "fusion") or case.ranks == 1:
        return None
    for divisor, whole in ((1, ""), (case.ranks, ", divided by N")):
        each = [_alone(evidence, rank, divisor) for rank in range(case.ranks)]
        predicted = [{v.name: {r: each[r][s][v.name] for r in range(case.ranks)} for v in case.variables}
                     for s in range(len(case.steps))]
        if explains(evidence, predicted):
            return Diagnosis("not-reduced", f"each rank gets its own gradient back{whole}: the reduction does nothing",
                             names_in_words(failing(evidence)))
    return None


def one_rank_alone(evidence, verdict):
    """Every rank got one rank's contribution, whole or divided: it was handed on, not added to the others'."""
    case, names = evidence.case, failing(evidence)
    if case.kind not in ("dense", "rows", "mixed", "fusion") or case.ranks == 1 or "nonfinite" in case.settings:
        return None
    if not case.settings.get("provenance") and all(_alike_ranks(case, name) for name in names):
        return None
    for source in range(case.ranks):
        for divisor, whole in ((1, ""), (case.ranks, ", divided by N")):
            mixed = [{**wanted, **{name: step[name] for name in names}}
                     for wanted, step in zip(evidence.wanted, _alone(evidence, source, divisor))]
            if explains(evidence, mixed):
                return Diagnosis("one-rank-alone", f"every rank gets rank {source}'s gradient alone{whole}: it is "
                                 f"handed on, not aggregated", names_in_words(names))
    return None


def _alone(evidence, rank, divisor) -> list[dict[str, Wanted]]:
    """Return, step by step, name -> one rank's contribution, divided."""
    bare = replace(evidence.semantics, dense="sum", sparse="sum", order="any")
    return [{v.name: _divided(aggregate([ranks[rank][v.name]], bare, v.dtype, evidence.case.exact), divisor)
             for v in evidence.case.variables} for ranks in evidence.case.steps]


def _alike_ranks(case, name) -> bool:
    """Return whether a rank has no number of a variable, or multiples of another's: one alone then proves nothing."""
    parts = [flat(ranks[name]) for ranks in case.steps[0]]
    if any(not np.any(a) for a in parts):
        return True
    ends = [a[-1] / np.abs(a).max() for a in parts], [a[0] / np.abs(a).max() for a in parts]
    return all(len(set(np.round(end, 9))) == 1 for end in ends)


def _divided(wanted, divisor) -> Wanted:
    if divisor == 1:
        return wanted
    value = with_numbers(wanted.value, lambda x: x / divisor)
    rounding = np.spacing(np.abs(numbers_of(value)).astype(wanted.dtype))
    return replace(wanted, value=value, tolerance=wanted.tolerance + rounding)


def group_divisor(evidence, verdict):
    """The sum over a subgroup, divided by the size of the world."""
    case = evidence.case
    if case.kind != "group":
        return None
    group = case.settings["group"]
    predicted = [{v.name: aggregate_dense([ranks[r][v.name] for r in group], case.ranks, Semantics(), v.dtype, False)
                  for v in case.variables} for ranks in case.steps]
    if not explains(evidence, predicted):
        return None
    return Diagnosis("group-divided-by-world", f"the sum over {len(group)} ranks is divided by {case.ranks}, the size "
                     "of the world", f"every number is {len(group)}/{case.ranks} of ours")


def root_ignored(evidence, verdict):
    """A broadcast's result is another rank's array than the root's."""
    case = evidence.case
    if case.kind != "broadcast":
        return None
    for rank in range(case.ranks):
        predicted = [{name: Wanted(np.asarray(a, np.float64), np.zeros(a.shape), "float32")
                      for name, a in case.steps[0][rank].items()}]
        if explains(evidence, predicted):
            return Diagnosis("root-ignored", f"the broadcast gives rank {rank}'s array, not that of rank "
                             f"{case.settings['root']}: the root is ignored")
    return None


def half_overflow(evidence, verdict):
    """inf where the mean of halves is finite."""
    names = failing(evidence) if evidence.case.name == "dense/half-overflow" else {}
    if names and all(np.isinf(value).all() for name in names for _, value in evidence.observed[0][name]):
        return Diagnosis("half-overflow", "the float16 sum overflows before it is divided: divide first, or add in "
                         "float32", "every element is inf, every mean is finite")
    return None


def flushed(evidence, verdict):
    """Denormals became zero."""
    names = failing(evidence) if evidence.case.name.endswith("/denormals") else {}
    zero = names and not any(np.any(numbers_of(value)) for name in names for _, value in evidence.observed[0][name])
    return Diagnosis("denormals-flushed", "denormal numbers are flushed to zero") if zero else None


def wrong_count(evidence, verdict):
    """A loss divided by something else than the number of examples."""
    case = evidence.case
    if case.kind != "loss":
        return None
    counts = [len(ranks["losses"]) for ranks in case.steps[0]]
    active = sum(n > 0 for n in counts)
    means = {"divided-by-full-batch": (case.ranks * max(counts), f"{case.ranks} full batches of {max(counts)}"),
             "divided-by-active-batches": (active * max(counts), f"{active} full batches of {max(counts)}"),
             "divided-by-ranks": (case.ranks, f"{case.ranks}, the number of ranks")}
    for code, (divisor, words) in means.items():
        predicted = [{want: aggregate_dense([row for part in case.steps[0] for row in part[have]], divisor, Semantics(),
                                            "float64", False)
                      for have, want in (("losses", "loss"), ("gradients", "gradient"))}]
        if divisor != sum(counts) and explains(evidence, predicted):
            return Diagnosis(code, f"the sum over {sum(counts)} examples is divided by that of {words}",
                             f"ranks have {', '.join(map(str, counts))} examples")
    return None


def lost_digits(evidence, verdict):
    """The result is right to float16 or float32 only, though gradients have more digits."""
    if KINDS[evidence.case.kind].stage != "aggregate" or "nonfinite" in evidence.case.settings:
        return None
    for narrow in ("float32", "float16"):
        eps = 2 * evidence.case.ranks * float(np.finfo(narrow).eps)
        wide = [{name: replace(w, tolerance=w.tolerance + eps * np.abs(_magnitude(evidence, s, name)), canonical=None)
                 for name, w in step.items()} for s, step in enumerate(evidence.wanted)]
        if explains(evidence, wide) and _fits(evidence, narrow):
            return Diagnosis("lost-digits", f"the numbers have no more digits than {narrow} has: somewhere they pass "
                             f"through it")
    return None


def _magnitude(evidence, step, name) -> float:
    """Return the largest contribution to a variable."""
    parts = [ranks[name] for ranks in evidence.case.steps[step]]
    return float(max((np.abs(numbers_of(p)).max(initial=0) for p in parts if not isinstance(p, list)), default=0))


def _fits(evidence, narrow) -> bool:
    """Return whether all numbers that failed are numbers of a narrower dtype."""
    values = [numbers_of(v) for s, step in enumerate(evidence.observed) for n in failing(evidence) for _, v in step[n]]
    return all(v.dtype != narrow and np.array_equal(v.astype(narrow).astype(v.dtype), v) for v in values)


def _brain(array, add):
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    nearest = np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)) if add else np.uint32(0)
    return ((bits + nearest) & np.uint32(0xFFFF0000)).view(np.float32).reshape(array.shape).astype(array.dtype)


NARROW = {"float16": lambda a: a.astype(np.float16).astype(a.dtype), "bfloat16": lambda a: _brain(a, True),
          "bfloat16, cut off": lambda a: _brain(a, False), "float32": lambda a: a.astype(np.float32).astype(a.dtype)}


def narrowed(evidence, verdict):
    """Each contribution is rounded to a narrower dtype, then they are added in the variable's own."""
    if evidence.case.kind not in ("dense", "rows", "mixed") or "nonfinite" in evidence.case.settings:
        return None
    for dtype, cast in NARROW.items():
        if explains(evidence, with_changes(evidence, lambda s, r, n, part: with_numbers(part, cast), loose=True)):
            return Diagnosis("lost-digits", f"each rank's numbers pass through {dtype} before they are added",
                             names_in_words(failing(evidence)))
    return None


HYPOTHESES = (half_overflow, flushed, root_ignored, group_divisor, not_reduced, one_rank_alone)
