"""Say where answers are wrong, as a pattern in words, if no deviation explains them."""

import numpy as np

from refimpl.conformance.case import Rows, numbers_of
from refimpl.conformance.compare import aligned, differences
from refimpl.conformance.diagnose.features import optimizers_alone, telling
from refimpl.conformance.diagnose.told import Diagnosis
from refimpl.conformance.words import names_in_words, ordinal, ranks_in_words, some


def localise(answers, passed, verdicts) -> Diagnosis:
    """Return where the answers to some cases of one function, or of trainings, are wrong. Local.

    answers: ``Answers`` without an explanation.  passed: cases of the same function that passed.
    verdicts: id of evidence -> Verdict.
    """
    first = min(answers, key=lambda a: (len(a.case.variables), sum(numbers_of(o.value).size for o in a.seen)))
    if all(a.rounded for a in answers):
        return _rounding(first, verdicts[id(first.evidence)])
    if found := _rows_lost(answers) or _rows_swapped(answers):
        return found
    failed = [a.case for a in answers]
    told = telling(failed, passed) or optimizers_alone(failed, passed)
    names = sorted({one.place.variable.name for one in first.wrong})
    functions = list(dict.fromkeys(answer.function for answer in answers))
    words = [f"{names_in_words(functions)}: {names_in_words(names)} {'differs' if len(names) == 1 else 'differ'}",
             *filter(None, (told and told[1], _steps(first), _ranks(first)))]
    begun = [one for one in first.wrong if one.place.step == first.wrong[0].place.step]
    place = ""
    for words_of, those in (("at first ", begun), ("", first.wrong)):
        patterns = {pattern for one in those if (pattern := _pattern(one, first))}
        place = f": {words_of}{patterns.pop()}" if len(patterns) == 1 else place
    return Diagnosis(f"unexplained={functions[0]}" + (f",{told[0]}" if told else ""), ", ".join(words) + place,
                     f"no deviation gives these numbers; the smallest case that shows it is {first.case.name}: "
                     f"{verdicts[id(first.evidence)].why}", True, _shown_by(first))


def _shown_by(answers) -> tuple:
    """Return the case, and the place of its first wrong answer."""
    place = answers.wrong[0].place
    return answers.case.name, place.step, place.variable.name, place.rank


def _rounding(answers, verdict) -> Diagnosis:
    return Diagnosis(f"rounding={answers.function}", f"{answers.function}: right but for rounding, which is more than "
                     f"any order of the operations explains: up to {verdict.worst_ulp:.3g} ULP, "
                     f"{verdict.worst_ratio:.3g} x what is allowed",
                     f"the smallest case that shows it is {answers.case.name}: {verdict.why}", True,
                     _shown_by(answers))


def _rows_lost(answers) -> Diagnosis | None:
    """Rows are missing, and all others are right."""
    told = {}
    for one in (one for each in answers for one in each.wrong):
        _, _, bad, ids = differences(one.value, one.wanted)
        if ids is None:
            return None
        lost = np.setdiff1d(one.wanted.value.ids, one.value.ids)
        if not len(lost) or not np.isin(ids[bad.any(axis=1)], lost).all():
            return None
        told.setdefault(one.place.variable.name, some(lost))
    words = "; ".join(f"{name}: {rows}" for name, rows in told.items())
    return Diagnosis("rows-lost", "rows are missing, the others are right", words)


def _rows_swapped(answers) -> Diagnosis | None:
    """Rows of a variable are right, but in wrong places."""
    told = {}
    for one in (one for each in answers for one in each.wrong):
        _, _, bad, ids = differences(one.value, one.wanted)
        if bad.ndim != 2 or isinstance(one.value, Rows) and len(one.value.ids) != len(one.wanted.value.ids):
            return None
        rows = np.flatnonzero(bad.any(axis=1))
        value, expected = (np.asarray(aligned(x, ids), np.float64)[rows] for x in (one.value, one.wanted.value))
        apart = np.abs(value[:, None] - expected[None])
        fits = (apart <= np.max(one.wanted.tolerance, initial=0.0)).all(axis=2)
        source = fits.argmax(axis=1)
        if len(rows) < 2 or not fits.any(axis=1).all() or len(set(source.tolist())) < len(rows):
            return None
        numbers = rows if ids is None else ids[rows]
        pairs = [f"{number} has what belongs to {numbers[at]}" for number, at in zip(numbers, source)]
        told.setdefault(one.place.variable.name, f"row {some(pairs)}")
    words = "; ".join(f"{name}: {pairs}" for name, pairs in told.items())
    return Diagnosis("rows-swapped", "rows are in each other's places", words)


def _steps(answers) -> str:
    wrong, all_steps = {o.place.step for o in answers.wrong}, {o.place.step for o in answers.seen}
    if wrong == all_steps:
        return ""
    first = min(wrong)
    if wrong == {s for s in all_steps if s >= first}:
        return f"from step {first} on"
    return f"in step{'s' if len(wrong) > 1 else ''} {names_in_words(map(str, sorted(wrong)))} alone"


def _ranks(answers) -> str:
    wrong, everyone = ({one.place.rank for one in those if one.place.rank is not None}
                       for those in (answers.wrong, answers.seen))
    return "" if not wrong or wrong == everyone else f"on {ranks_in_words(sorted(wrong))} alone"


def _pattern(one, answers) -> str:
    """Return which elements of an answer are wrong, and how."""
    _, _, bad, ids = differences(one.value, one.wanted)
    found, wanted = (np.asarray(aligned(x, ids), np.float64) for x in (one.value, one.wanted.value))
    if ids is None and one.place.variable.sparse:  # a whole table
        ids = np.arange(len(bad))
    where = _of_rows(one, answers, bad, ids) if ids is not None else _of_array(bad)
    return ", ".join(filter(None, (where, _what(found[bad], wanted[bad]))))


def _what(found, wanted) -> str:
    if not np.isfinite(found).all():
        return "which are not finite"
    if not found.any():
        return "which are 0"
    if np.array_equal(found, -wanted):
        return "which have the other sign"
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios, apart = found / wanted, found - wanted
    if len(found) > 1 and np.isfinite(ratios).all() and np.allclose(ratios, ratios[0], rtol=1e-6):
        return f"which are {ratios[0]:.6g} x what is right"
    if len(found) > 1 and np.allclose(apart, apart[0], rtol=1e-6):
        return f"which are {apart[0]:+.6g} off"
    return ""


def _of_array(bad) -> str:
    """Return which elements of a dense array are wrong."""
    if bad.ndim == 0 or bad.all():
        return "every element" if bad.ndim else ""
    if bad.ndim == 1:
        return f"element {run_of(np.flatnonzero(bad), len(bad))}"
    along = [np.flatnonzero(bad.any(axis=tuple(a for a in range(bad.ndim) if a != axis))) for axis in range(bad.ndim)]
    if bad[np.ix_(*along)].all():
        named = [f"{what} {run_of(which, size)}" for what, which, size in
                 zip(("row", *["column"] * (bad.ndim - 1)), along, bad.shape) if len(which) < size]
        return " of ".join(reversed(named))
    return f"element {run_of(np.flatnonzero(bad.reshape(-1)), bad.size)} of the flat array"


def _of_rows(one, answers, bad, ids) -> str:
    """Return which rows and columns of a row gradient are wrong."""
    columns = np.flatnonzero(bad.any(axis=0))
    across = "" if len(columns) == bad.shape[1] else f"column {run_of(columns, bad.shape[1])} of "
    wrong = set(ids[bad.any(axis=1)].tolist())
    if wrong == set(ids.tolist()):
        return f"{across}every row"
    for words, rows in _kinds_of_rows(one, answers, ids):
        if rows == wrong:
            return f"{across}{words}"
    return f"{across}row {run_of(np.searchsorted(ids, sorted(wrong)), len(ids), ids)}"


def _kinds_of_rows(one, answers, ids):
    """Yield (words, row numbers) of each kind of row of an aggregate."""
    steps = answers.case.steps
    if answers.case.kind in ("owner", "codec", "accumulate") or not (one.place.step or 0) < len(steps):
        return
    parts = [ranks and ranks.get(one.place.variable.name) for ranks in steps[one.place.step or 0] or [None]]
    if not all(isinstance(p, Rows) for p in parts):
        return
    pushes = {int(k): sum(k in p.ids for p in parts) for k in ids}
    repeated = {int(k) for p in parts for k in p.ids if np.count_nonzero(p.ids == k) > 1}
    yield "rows that several ranks push", {k for k, count in pushes.items() if count > 1}
    yield "rows that one rank alone pushes", {k for k, count in pushes.items() if count == 1}
    yield "rows that all ranks push", {k for k, count in pushes.items() if count == len(parts)}
    yield "rows that no rank pushes", {k for k, count in pushes.items() if count == 0}
    yield "rows that a rank has more than once", repeated
    yield "even rows", {int(k) for k in ids if k % 2 == 0}
    yield "odd rows", {int(k) for k in ids if k % 2}
    for rank, part in enumerate(parts):
        yield f"rows that rank {rank} pushes", set(part.ids.tolist())
    for power in (31, 24, 16, 15):
        yield f"rows from 2^{power} on", {int(k) for k in ids if k >= 2**power}


def run_of(places, size: int, names=None) -> str:
    """Return some of ``size`` places in words: "0", "2 to 5", "3, and every 4th from there on", "0, 3 and 7". Local.

    names: names of the places; None: their numbers.
    """
    called = (lambda k: str(names[k])) if names is not None else str
    first, last = int(places[0]), int(places[-1])
    if len(places) == 1:
        return f"{called(first)}, the last" if first == size - 1 and size > 1 else called(first)
    apart = set(np.diff(places).tolist())
    if apart == {1}:
        return f"{called(first)} to {called(last)}" + (", the last" if last == size - 1 else "")
    if len(apart) == 1 and len(places) > 2 and last + min(apart) >= size:
        return f"{called(first)}, and every {ordinal(min(apart))} from there on"
    some = [called(int(k)) for k in places[:4]]
    return names_in_words(some) if len(places) <= 4 else f"{', '.join(some)} and {len(places) - 4} more"
