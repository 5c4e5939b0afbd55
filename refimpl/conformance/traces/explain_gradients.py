"""Hypotheses about gradients: factors, microbatches in each other's places, left out or counted twice, stale sums."""

import numpy as np

from refimpl.conformance.case import Rows, with_numbers
from refimpl.conformance.compare import aligned
from refimpl.conformance.diagnose import Diagnosis
from refimpl.conformance.diagnose.diagnosis import factor_of, fits, flat
from refimpl.conformance.traces.sources import Differing, merged
from refimpl.conformance.words import names_in_words, some


TIMES = {0: "never", 1: "once", 2: "twice", 3: "three times"}


def one_factor(differing: Differing):
    """All that differs is one factor times ours."""
    failing, count = list(differing.failing()), differing.sources.microbatches
    factor = factor_of([(found, want) for _, found, want, _, _ in failing])
    if factor is None:
        return None
    code, words = next(((code, words) for times, code, words in (
        (count, "multiplied-by-n", f"{count} x ours: not averaged, or multiplied by the number of microbatches"),
        (1 / count, "divided-again", f"1/{count} of ours: divided by the number of microbatches once more"))
        if abs(factor / times - 1) < 1e-4), ("scaled", f"{factor:.6g} x ours"))
    names = names_in_words(sorted({place[3] for place, *_ in failing}))
    return Diagnosis(code, f"all numbers of {names} are {words}", f"the factor is {factor:.6g}", vague=code == "scaled")


def own_mean(differing: Differing):
    """Each microbatch's loss is divided by its own number of examples."""
    sources, seen = differing.sources, set()
    for place, found, want, _, _ in differing.failing():
        inputs = {what: sources.ours.get("inputs", place[1], what, place[2])
                  for what in ("normaliser", "targets", "weights")}
        counted = inputs["targets"].size if inputs["weights"] is None else inputs["weights"].sum()
        factor = float(inputs["normaliser"] / counted)
        if not fits(found, want, with_numbers(want.value, lambda x: x * factor), 1e-5):
            return None
        seen.add(f"{factor:g}")
    return Diagnosis("loss=mean-of-means", "each microbatch's loss is divided by its own number of targets, not by "
                     "that of the whole batch", f"factors {names_in_words(sorted(seen, key=float))}") if seen else None


def microbatches_moved(differing: Differing):
    """A microbatch has the gradients of another."""
    sources, step, pairs = differing.sources, differing.step, {}
    for place, found, want, _, _ in differing.failing():
        for other in sources.active(step):
            value = sources.truth.get("local", step, place[3], other)
            if fits(found, want, value):
                pairs.setdefault(place[2], set()).add(other)
                break
        else:
            return None
    if not pairs or any(len(sources_of) > 1 for sources_of in pairs.values()):
        return None
    told = [f"microbatch {m} has the gradients of microbatch {next(iter(o))}" for m, o in sorted(pairs.items())]
    return Diagnosis("microbatches-swapped", "; ".join(told), f"step {step}, every variable that differs")


def miscounted(differing: Differing):
    """Some microbatches are not in the sum, or more than once."""
    sources, parts = differing.sources, differing.sources.local(differing.step)
    failing = list(differing.failing())
    if parts is None or not {sources.semantics.dense, sources.semantics.sparse} <= {"sum", "average"}:
        return None
    active, columns, sums = sources.active(differing.step), [], []
    for place, found, want, _, ids in failing:
        rule = sources.semantics.sparse if isinstance(found, Rows) else sources.semantics.dense
        divisor = sources.microbatches if rule == "average" else 1
        columns.append(np.stack([flat(aligned(merged(parts[m][place[3]]), ids)) / divisor for m in active], axis=1))
        sums.append(flat(aligned(found, ids)))
    matrix, total = np.concatenate(columns), np.concatenate(sums)
    if not np.isfinite(total).all() or np.linalg.matrix_rank(matrix) < len(active):
        return None
    counts = np.rint(np.linalg.lstsq(matrix, total, rcond=None)[0]).astype(int)
    tolerance = 4 * max(float(np.max(want.tolerance, initial=0.0)) for _, _, want, _, _ in failing)
    if len(set(counts.tolist())) == 1 or counts.min() < 0 or counts.max() > 3:
        return None
    if (np.abs(matrix @ counts - total) > tolerance).any():
        return None
    told = [f"microbatch{'es' if len(which) > 1 else ''} {names_in_words(which)} counted {TIMES[times_]}"
            for times_ in (3, 2, 0) if (which := [m for m, c in zip(active, counts) if c == times_])]
    return Diagnosis("rank-miscounted", "; ".join(told), f"fitted to {names_in_words(f[0][3] for f in failing)}, step "
                     f"{differing.step}; a rank's microbatches are those that it computed")


def stale_sum(differing: Differing):
    """What was aggregated is the step before's."""
    step, failing = differing.step, list(differing.failing())
    for place, found, *_ in failing:
        before = differing.sources.theirs.get("aggregated", step - 1, place[3])  # none of step -1
        if before is None or isinstance(found, Rows) and not np.array_equal(found.ids, before.ids):
            return None
        if not np.array_equal(flat(found), flat(before)):
            return None
    return Diagnosis("buffer-reused", f"{names_in_words(f[0][3] for f in failing)}: step {step} holds the sum of step "
                     f"{step - 1}", "every number is the same")


def rows_lost(differing: Differing):
    """Rows of the sum are missing; those that are there are right."""
    told = []
    for place, found, want, bad, ids in differing.failing():
        if not isinstance(found, Rows):
            return None
        lost = np.setdiff1d(want.value.ids, found.ids)
        wrong = ids[bad.any(axis=1)]
        if not len(lost) or not np.isin(wrong, lost).all():
            return None
        told.append(f"{place[3]}: {some(lost)}")
    return Diagnosis("rows-lost", "rows are missing, the others are right", "; ".join(told)) if told else None
