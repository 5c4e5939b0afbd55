"""Who was counted how often, read off the base-4 digits of the provenance cases."""

import numpy as np

from refimpl.conformance.case import Rows
from refimpl.conformance.compare import aligned
from refimpl.conformance.diagnose.diagnosis import Diagnosis, failing, ranks_in_words
from refimpl.conformance.rules.gradients import merge_occurrences

TIMES = {0: "never", 1: "once", 2: "twice", 3: "three times"}


def miscounted(evidence, verdict):
    """Rank r contributed 4^r times a code: the sum over the code, in base 4, is how often each was counted."""
    if not evidence.case.settings.get("provenance"):
        return None
    counts = set()
    for name in failing(evidence):
        for _, found in evidence.observed[0][name]:
            counts |= _counts(evidence, name, found)
    if len(counts) != 1 or None in counts:
        return None
    digits = next(iter(counts))
    told = [f"{ranks_in_words(ranks)} counted {TIMES[times]}" for times in (3, 2, 0)
            if (ranks := [r for r, d in enumerate(digits) if d == times])]
    if not told or not any(digits):
        return None
    return Diagnosis("rank-miscounted", "; ".join(told), "the base-4 digits of every number that differs say so")


def _counts(evidence, name, found) -> set:
    """Return the digits of all elements to which every rank contributes; None among them where they are no such sum."""
    parts = [merge_occurrences(ranks[name]) for ranks in evidence.case.steps[0]]
    wanted = evidence.wanted[0][name].value
    if isinstance(found, Rows) and not np.isin(found.ids[found.rows.any(axis=1)], wanted.ids).all():
        return {None}  # rows went elsewhere: who is missing says nothing
    places = np.union1d(found.ids, wanted.ids) if isinstance(found, Rows) else None
    stack = np.stack([aligned(p, places) for p in parts]).astype(np.float64)
    expected = aligned(wanted, places)
    divisor = np.where(expected == 0, 1.0, np.rint(stack.sum(axis=0) / expected))
    total = np.rint(aligned(found, places) * divisor)
    return {_digits(total[at], stack[(slice(None), *at)]) for at in np.ndindex(total.shape)
            if stack[(slice(None), *at)].all()}


def _digits(total, contributions):
    """Return how often each rank's contribution is in the total, None if no counts of 0 to 3 give it."""
    whole = total / contributions[0]
    if not 0 <= whole < 4 ** len(contributions) or whole != int(whole):
        return None
    return tuple(int(whole) // 4**r % 4 for r in range(len(contributions)))
