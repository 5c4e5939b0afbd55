"""What is said of bugs that are no deviation, or one in some cases alone: where, as a pattern in words."""

import numpy as np
import pytest

from mutants.mutant import planted
from mutants.run import cases_for
from refimpl.conformance.cases import case_named
from refimpl.conformance.diagnose import summary
from refimpl.conformance.diagnose.localise import run_of
from refimpl.conformance.runner import run_local


def said(make, kinds=(), names=(), ranks=3):
    cases = [c for c in cases_for(ranks, "") if c.kind in kinds] + [case_named(name, ranks) for name in names]
    return [(d.code, d.words, d.evidence) for d, _ in summary(run_local(make, ranks, cases).failed)]


@pytest.mark.parametrize("places, size, words", [
    ([4], 5, "4, the last"), ([0], 5, "0"), ([2, 3, 4], 5, "2 to 4, the last"), ([1, 2], 5, "1 to 2"),
    ([3, 7, 11], 12, "3, and every 4th from there on"), ([0, 3, 4], 9, "0, 3 and 4"),
    ([0, 1, 3, 4, 8], 9, "0, 1, 3, 4 and 1 more")])
def test_places_in_words(places, size, words):
    assert run_of(np.array(places), size) == words


def _last_column(self, right, arrays):
    return {n: a * np.where(np.arange(a.shape[-1]) == a.shape[-1] - 1, 3, 1).astype(a.dtype) if a.ndim > 1 else a
            for n, a in right(arrays).items()}


def test_a_column():
    (code, words, evidence), = said(planted(aggregate_dense=_last_column), names=["dense/exact-float32"])
    assert code == "unexplained=aggregate_dense"
    assert words == "aggregate_dense: weight differs: column 4, the last, which are 3 x what is right"
    assert "dense/exact-float32: weight[0, 4] is " in evidence


def _shared_rows(self, right, parts):
    """Rows that several ranks push are multiplied."""
    ids, rows = right(parts)
    pushes = np.array([sum(k in p[0] for p in parts) for k in ids.tolist()])
    return ids, np.where(pushes[:, None] > 1, 7 * rows, rows).astype(rows.dtype)


def test_rows_of_a_kind():
    (_, words, _), = said(planted(merge=_shared_rows), names=["rows/exact"])
    assert words.endswith("table differs: rows that several ranks push, which are 7 x what is right")


def test_a_rank():
    """Integers that are one off are not said to be rounded to integers, nor what is one off to lack digits."""
    off = planted(aggregate_dense=lambda self, right, arrays: {
        n: a + (self.world.rank == 1) for n, a in right(arrays).items()})
    assert [code for code, *_ in said(off, kinds=("dense",))] == ["unexplained=aggregate_dense"]
    ((_, words, _),) = said(off, names=["dense/steps"])
    assert "on rank 1 alone: every element, which are +1 off" in words


def test_a_deviation_in_some_cases_alone():
    """The rate is twice as large, but with one optimizer only: other cases contradict the plain words."""
    faster = planted(rate=lambda self, right, task, updates: right(task, updates) * (1 + (task.optimizer == "adam")))
    found = said(faster, names=["update/sgd", "update/adam", "update/adagrad", "update/starts"])
    assert [words for _, words, _ in found] == ["the learning rate is twice as large, with adam alone"]


def _cubed(*optimizers):
    def apply_one(self, right, task, variable, gradient):
        before = self.values[variable.name].copy()
        right(task, variable, gradient)
        if task.optimizer in optimizers:
            moved = self.values[variable.name] - before
            self.values[variable.name] = before + np.sign(moved) * np.abs(moved) ** 3

    return planted(apply_one=apply_one)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_rounding_is_called_rounding(ranks):
    """And not by the name of a deviation that changes nothing here."""
    one_ulp_off = planted(aggregate_dense=lambda self, right, arrays: {
        n: np.nextafter(a, np.full_like(a, np.inf)) for n, a in right(arrays).items()})
    found = said(one_ulp_off, kinds=("dense",), ranks=ranks)
    assert {code for code, *_ in found} == {"rounding=aggregate_dense"}


def test_two_bugs_are_two_sentences():
    """Rank 0 is not in sums of dense gradients; the last row of each rank's is lost."""
    two_bugs = planted(mean=lambda self, right, arrays, divisor=None: right(arrays[1:], divisor or len(arrays)),
                       leaf=lambda self, right, ids, rows: right(ids[:-1], rows[:-1]))
    codes = {code for code, *_ in said(two_bugs, names=["dense/provenance", "dense/tails", "rows/exact", "rows/steps"], ranks=2)}
    assert codes == {"rank-miscounted", "row-lost"}


def test_what_nothing_explains_says_on_what_it_depends():
    """One cause that shows in updates, windows and after resuming is one sentence."""
    names = ["update/sgd", "update/adam", "update/adamw", "update/momentum", "accumulate/sgd",
             "accumulate/adam", "resume/adam"]
    (code, words, _), = said(_cubed("adam"), ranks=2, names=names)
    assert code == "unexplained=update,optimizer=adam" and ", with adam alone" in words
    assert words.startswith("update, accumulate and resume: ")
    (code, words, _), = said(_cubed("adam", "adamw"), ranks=2, names=names)
    assert code == "unexplained=update,optimizer=adam+adamw" and ", with adam and adamw alone" in words


def test_a_mistake_in_dense_gradients_alone_is_named_though_rows_follow():
    """A wrong dense gradient changes the norm, and so the rows that this norm clips."""
    wrong = planted(added=lambda self, right, parts, divisor: right(
        parts, divisor if isinstance(parts[0], tuple) else 1 / divisor))
    (code, words, _), = said(wrong, names=["accumulate/clip"], ranks=2)
    assert code == "micro-steps-inverted" and words.endswith(", of dense gradients alone")
