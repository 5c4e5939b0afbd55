"""Hypotheses about structure: ids, pairs, positions, order of variables, uses, buffers. Each changes the inputs."""

from dataclasses import replace
from itertools import permutations

import numpy as np

from refimpl.conformance.case import Rows, numbers_of
from refimpl.conformance.diagnose.diagnosis import (
    Diagnosis, explains, failing, names_in_words, nothing_there, ranks_in_words, with_changes,
)
from refimpl.conformance.diagnose.values import lost_digits, narrowed, wrong_count
from refimpl.conformance.rules.aggregate import aggregate


def ids_cast(evidence, verdict):
    """Row numbers went through float32 or int32."""
    if evidence.case.kind != "rows":
        return None
    for dtype in ("float32", "int32"):
        def cast(s, r, name, part):
            return replace(part, ids=part.ids.astype(dtype).astype(np.int64))

        if any(explains(evidence, with_changes(evidence, cast, loose=loose)) for loose in (False, True)):
            ids = next(part.ids for part in evidence.case.steps[0][0].values())
            row = next(row for row in ids if row.astype(dtype).astype(np.int64) != row)
            return Diagnosis(f"ids-{dtype}", f"row numbers pass through {dtype}",
                             f"row {row} went to {row.astype(dtype).astype(np.int64)}")
    return None


def added_by_position(evidence, verdict):
    """Rows were added position by position, though their ids differ."""
    if evidence.case.kind not in ("rows", "mixed"):
        return None
    for source in range(evidence.case.ranks):
        def borrow(s, r, name, part):
            ids = getattr(evidence.case.steps[s][source][name], "ids", None)
            return part if ids is None or len(ids) != len(part.ids) else replace(part, ids=ids)

        if explains(evidence, with_changes(evidence, borrow)):
            return Diagnosis("added-by-position", "row gradients are added position by position, under the ids of rank "
                             f"{source}: rows of different ids are mixed", names_in_words(failing(evidence)))
    return None


def ids_of_another(evidence, verdict):
    """Rows of one variable with the ids of another."""
    names = [v.name for v in evidence.case.variables if v.sparse]
    if evidence.case.kind not in ("rows", "update", "mixed") or len(names) < 2 or nothing_there(evidence):
        return None
    for order in list(permutations(names))[1:]:
        other = dict(zip(names, order))

        def pair(s, r, name, part):
            if not isinstance(part, Rows):
                return part
            ids = evidence.case.steps[s][r][other[name]].ids
            return Rows(ids[:len(part.ids)], part.rows[:len(ids)])

        if explains(evidence, with_changes(evidence, pair)):
            pairs = [f"rows of {a} with the ids of {b}" for a, b in other.items() if a != b]
            return Diagnosis("ids-of-another", f"variables are mixed up: {'; '.join(pairs)}")
    return None


def matched_by_position(evidence, verdict):
    """Ranks produced their variables in different orders, and the k-th of each were added."""
    case = evidence.case
    if case.kind not in ("dense", "mixed") or len(case.variables) < 2:
        return None
    predicted = []
    for ranks in case.steps:
        orders = [list(parts) for parts in ranks]
        predicted.append({v.name: {} for v in case.variables})
        for v in case.variables:
            for r in range(case.ranks):
                parts = [ranks[q][orders[q][orders[r].index(v.name)]] for q in range(case.ranks)]
                predicted[-1][v.name][r] = _added_bare(evidence, v, ranks[r][v.name], parts)
    if not explains(evidence, predicted):
        return None
    if case.kind == "mixed":
        return Diagnosis("kinds-mixed", "collectives of two kinds meet each other: the dense gradient of one rank is "
                         "added to the rows of another", "ranks produced them in different orders")
    return Diagnosis("matched-by-position", "unlike variables are added: each rank's k-th gradient, though ranks "
                     "produce them in different orders", names_in_words(failing(evidence)))


def _added_bare(evidence, variable, own, parts):
    """Return the aggregate of whatever arrays met; under a rank's own ids where its variable is sparse."""
    arrays = [numbers_of(p) for p in parts]
    if any(a.shape != numbers_of(own).shape for a in arrays):
        return None
    if isinstance(own, Rows):
        arrays = [Rows(own.ids, a) for a in arrays]
    return aggregate(arrays, replace(evidence.semantics, order="any"), variable.dtype, evidence.case.exact)


def use_lost_or_twice(evidence, verdict):
    """Of a variable that is read twice one gradient is lost, or counted twice."""
    if evidence.case.kind != "uses":
        return None
    for code, words, counted in (("use-lost", "the first use is lost", lambda p: p[1:]),
                                 ("use-lost", "the last use is lost", lambda p: p[:-1]),
                                 ("use-twice", "every use is counted twice", lambda p: [*p, *p]),
                                 ("use-twice", "the first use is counted twice", lambda p: [*p, p[0]]),
                                 ("use-twice", "the last use is counted twice", lambda p: [*p, p[-1]])):
        if explains(evidence, with_changes(evidence, lambda s, r, name, part: counted(part))):
            return Diagnosis(code, f"of a variable that is read at two places {words}",
                             names_in_words(failing(evidence)))
    return None


def buffer_reused(evidence, verdict):
    """Some ranks' contribution to one sum is what they had for another variable or step: a buffer was written early."""
    case = evidence.case
    if case.kind not in ("dense", "rows") or len(case.steps) * len(case.variables) < 2:
        return None
    everyone = range(case.ranks)
    subsets = [list(everyone), *([r] for r in everyone), *([q for q in everyone if q != r] for r in everyone)]
    for shift, words in ((1, "the next step's"), (-1, "the step before's")):
        for ranks in subsets:
            def other(s, r, name, part):
                return case.steps[s + shift][r][name] if r in ranks and 0 <= s + shift < len(case.steps) else part

            if explains(evidence, with_changes(evidence, other)):
                return Diagnosis("buffer-reused", f"{words} gradients of {ranks_in_words(ranks)} are in the sum{EARLY}",
                                 names_in_words(failing(evidence)))
    for name in failing(evidence):
        for source in [v.name for v in case.variables if v.name != name and v.shape == case.variable(name).shape]:
            for ranks in (ranks for ranks in subsets if not _empty(case, source, ranks)):
                def of_other(s, r, n, part):
                    return case.steps[s][r][source] if r in ranks and n == name else part

                if explains(evidence, with_changes(evidence, of_other)):
                    return Diagnosis("buffer-reused", f"{ranks_in_words(ranks)} contributed {source} to {name}{EARLY}")
    return None


EARLY = ": a buffer is used again before its transfer ended"


def _empty(case, name, ranks) -> bool:
    """Return whether some of the ranks have no number of a variable: to contribute that is to contribute nothing."""
    return any(numbers_of(step[r][name]).size == 0 for step in case.steps for r in ranks)


HYPOTHESES = (ids_cast, use_lost_or_twice, wrong_count, matched_by_position, added_by_position, ids_of_another,
              buffer_reused, narrowed, lost_digits)
