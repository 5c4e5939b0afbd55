"""The comparison: what it lets pass, and what it does not."""

from dataclasses import replace

import numpy as np
import pytest

from refimpl.conformance.adapters.reference import EVERYTHING, Reference
from refimpl.conformance.case import Rows
from refimpl.conformance.cases import all_cases, case_named
from refimpl.conformance.compare import judge
from refimpl.conformance.runner import run_local
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.target import Answer, Target, unsupported
from refimpl.conformance.worlds import run_ranks


def answers_to(case, semantics=EVERYTHING):
    return run_ranks(case.ranks, lambda world: Target(Reference(world, semantics)).answer(case, world.rank))


def verdict_after(name, change, semantics=EVERYTHING, ranks=3):
    """Judge right answers after change(answers)."""
    case = case_named(name, ranks)
    answers = answers_to(case, semantics)
    assert judge(case, semantics, answers)[0].status == "passed"
    change(answers)
    return judge(case, semantics, answers)[0]


def poke(rank, step, name, by):
    """Change one number of an array or of rows."""
    def change(answers):
        part = answers[rank].steps[step][name]
        array = np.array(part.rows if isinstance(part, Rows) else part)
        array.flat[1] = by(array.flat[1])
        answers[rank].steps[step][name] = Rows(part.ids, array) if isinstance(part, Rows) else array

    return change


def nudge(x):
    return np.nextafter(x, np.float32(np.inf))


def test_one_ulp_on_one_rank_is_seen_where_sums_are_exact():
    """On 4 ranks: an average over 3 may round."""
    verdict = verdict_after("dense/exact-float32", poke(2, 0, "weight", nudge), ranks=4)
    finding = next(f for f in verdict.findings if not f.ok)
    assert (finding.variable, finding.step, finding.rank, finding.element) == ("weight", 0, 2, (0, 1))
    assert finding.worst_ulp == 1 and finding.comparison == "exact"
    assert "weight[0, 1] is" in verdict.why and "rank 2" in verdict.why


@pytest.mark.parametrize(("name", "variable", "step"), [
    ("rows/steps", "table", 1), ("update/adam", "items", 2), ("loss/unequal", "gradient", 0),
    ("mixed/orders", "weight", 0),
    ("dense/cancelling-float64", "weight", 0), ("broadcast/last", "weight", 0)])
def test_a_small_error_is_seen_and_placed(name, variable, step):
    verdict = verdict_after(name, poke(1, step, variable, lambda x: x * 1.001 + 0.001))
    finding = next(f for f in verdict.findings if not f.ok)
    assert (verdict.status, finding.variable, finding.step, finding.rank) == ("failed", variable, step, 1)
    assert finding.worst_ratio > 1


def test_rounding_passes_where_data_cancel():
    assert verdict_after("dense/cancelling-float32", poke(0, 0, "weight", nudge)).status == "passed"


def test_bits_are_compared_where_the_tree_is_promised():
    tree = replace(EVERYTHING, order="tree")
    assert verdict_after("dense/cancelling-float32", poke(0, 0, "weight", nudge), tree).status == "failed"
    minus = verdict_after("dense/negative-zero",
                          lambda a: a[0].steps[0].update(weight=np.abs(a[0].steps[0]["weight"])), tree)
    assert minus.status == "failed" and minus.findings[0].comparison == "bits"


def test_nan_is_not_forgiven():
    assert verdict_after("dense/exact-float32", poke(0, 0, "weight", lambda x: np.nan)).status == "failed"
    assert verdict_after("dense/nan", poke(0, 0, "weight", lambda x: 840)).status == "failed"
    assert verdict_after("rows/inf", poke(0, 0, "table", lambda x: -np.inf)).status == "failed"


def of_rows(name, change, semantics=EVERYTHING):
    """Judge answers to rows/duplicates after change(what rank 0 has of a variable)."""
    def apply(answers):
        parts = answers[0].steps[0]
        parts[name] = change(parts[name])

    return verdict_after("rows/duplicates", apply, semantics)


@pytest.mark.parametrize(("change", "words"), [
    (lambda p: Rows(p.ids[1:], p.rows[1:]), "is 0, expected"),
    (lambda p: Rows(np.append(p.ids, 8), np.append(p.rows, np.ones((1, 3), np.float32), axis=0)), "expected 0"),
    (lambda p: Rows(np.append(p.ids, p.ids[0]), np.append(p.rows, p.rows[:1], axis=0)), "expected"),
    (lambda p: Rows(p.ids, p.rows[:0]), "1 ids and 0 rows of table"),
    (lambda p: Rows(p.ids[:, None], p.rows), "of shape (1, 1), expected (n,)"),
    (lambda p: p.rows, "as an array"),
    (lambda p: Rows(p.ids, p.rows.astype(np.float64)), "as float64"),
    (lambda p: Rows(p.ids.astype(np.float32), p.rows), "the ids of table as float32"),
    (lambda p: Rows(p.ids, p.rows[:, :2]), "of shape"),
])
def test_rows_that_are_wrong(change, words):
    verdict = of_rows("table", change)
    assert verdict.status == "failed" and words in verdict.why


def apart(p):
    """As an allgather of ids and rows leaves them: not added yet."""
    return Rows(np.append(p.ids, p.ids), np.append(p.rows / 4, p.rows * 0.75, axis=0).astype(np.float32))


def whole(p):
    """A dense gradient."""
    array = np.zeros((9, 3), np.float32)
    array[p.ids] = p.rows
    return array


@pytest.mark.parametrize("change", [
    lambda p: Rows(p.ids[::-1], p.rows[::-1]), apart, whole,
    lambda p: Rows(np.append(p.ids, 8), np.append(p.rows, np.zeros((1, 3), np.float32), axis=0))])
def test_rows_in_any_order_zeros_among_them_not_added_yet_or_as_a_whole_array_pass(change):
    assert of_rows("mixed", change).status == "passed"


def test_another_form_passes_only_where_it_means_the_same():
    assert "more than once" in of_rows("mixed", apart, replace(EVERYTHING, order="tree")).why  # bits are promised
    wrong = of_rows("mixed", lambda p: whole(p) + 1)
    assert wrong.status == "failed" and "mixed[0, 0]" in wrong.why
    assert "as an array" in of_rows("mixed", lambda p: whole(p)[:-1]).why


def test_a_row_on_two_owners_is_seen():
    owners = replace(EVERYTHING, rows_on="owner")
    verdict = verdict_after("rows/exact", lambda a: a[0].steps[0].update(a[1].steps[0]), owners)
    assert verdict.status == "failed"


def test_refusing_what_is_not_finite_must_be_done_by_all():
    case, semantics = case_named("dense/inf", 3), replace(EVERYTHING, nonfinite="refuse")
    answers = answers_to(case, semantics)
    assert judge(case, semantics, answers)[0].why.startswith("refused on every rank")
    answers[1] = Answer(case.steps[0])
    assert judge(case, semantics, answers)[0].status == "failed"
    assert judge(case, EVERYTHING, answers_to(case, semantics))[0].status == "failed"


def test_missing_answers_and_too_many():
    for change, words in ((lambda a: a[2].steps.pop(), "gave 3 updates, expected 4"),
                          (lambda a: a[0].steps[0].pop("items"), "gave nothing for items")):
        verdict = verdict_after("update/sgd", change)
        assert verdict.status == "failed" and words in verdict.why


@pytest.mark.parametrize("lost, code, words", [(-1, "partial=dropped", "the last window, which is partial, is dropped"),
                                               (0, "", "gave 2 updates, expected 3; the first that differs is update 0")])
def test_another_window_than_the_last_is_not_called_the_last(lost, code, words):
    case = case_named("accumulate/sgd", 2)
    answers = answers_to(case)
    for answer in answers:
        answer.steps.pop(lost)
    verdict, _ = judge(case, EVERYTHING, answers)
    assert verdict.findings[0].code == code and words in verdict.why


def test_what_the_manifest_leaves_out_is_skipped_with_a_reason():
    for name, change, words in (("dense/half-overflow", {"dtypes": ("float32",)}, "leave out float16"),
                                ("update/adam", {"supports": ()}, "leaves out adam"),
                                ("update/starts", {"start": "same"}, "start = same"),
                                ("rows/ids-2^31", {"id_dtype": "int32"}, "id_dtype = int32"),
                                ("rows/ids-2^24", {"most_rows": 1000}, "most_rows is 1000"),
                                *((name, {"supports": ()}, f"supports leaves out {need}") for name, need in (
                                    ("owner/backup", "backup"), ("owner/ids-2^31", "row-keys"),
                                    ("mesh/1x2-two", "model-parallel"), ("codec/powersgd", "powersgd"))),
                                ("dense/fusion", {"fusion_bytes": None}, "fusion_bytes is null")):
        assert words in unsupported(case_named(name, 2), replace(EVERYTHING, **change))
        assert not unsupported(case_named(name, 2), EVERYTHING)


@pytest.mark.parametrize("name, function", [("owner/asynchronous", "serve"), ("mesh/2x1-two", "mesh_step")])
def test_what_the_adapter_has_not_is_skipped(name, function):
    case, bare = case_named(name, 2), Target(type("Bare", (), {"describe": lambda self: Semantics(supports=())})())
    assert not unsupported(case, bare.semantics) and bare.answer(case, 0).skipped == f"the adapter has no {function}"


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.thorough("3")
def test_the_reference_passes(ranks):
    outcome = run_local(Reference, ranks)
    assert not outcome.failed and {v.status for v in outcome.verdicts} == {"passed"}
    assert len(outcome.verdicts) == len(all_cases(ranks))
