"""What is said of an implementation that is wrong, beyond the mutants: the words, and their evidence."""

from dataclasses import replace

import numpy as np
import pytest

from mutants.aggregation import RankTwice, SparseNotAveraged
from mutants.checkers import Permuted, TooLow
from mutants.mutant import planted, undeclared
from mutants.run import cases_for
from mutants.training import RateOnRankZeroOnly, TableNotBroadcast
from refimpl.conformance import runner
from refimpl.conformance.adapters.reference import EVERYTHING
from refimpl.conformance.cases import case_named
from refimpl.conformance.diagnose import summary
from refimpl.conformance.runner import run_local
from refimpl.conformance.space.contributions import NARROW


def first(make, ranks=4, only=None):
    cases = cases_for(ranks, "") if only is None else [case_named(name, ranks) for name in only]
    found = summary(run_local(make, ranks, cases).failed)
    return found[0][0] if found else None


def declares(**change):
    """An implementation that does what the reference does by default, under another manifest."""
    return planted(describe=lambda self, right: replace(EVERYTHING, **change))


def test_who_was_counted_how_often():
    diagnosis = first(RankTwice, only=["dense/provenance", "rows/provenance", "mixed/orders"])
    assert diagnosis.words == "rank 0 was counted twice; rank 3 was never counted"
    assert "this explains every wrong number" in diagnosis.evidence


@pytest.mark.thorough
def test_rows_that_are_not_averaged():
    diagnosis = first(SparseNotAveraged)
    assert diagnosis.words == ("your manifest says that row gradients are divided by N, the number of ranks. Your "
                               "numbers match another rule: row gradients are summed over the ranks")
    assert diagnosis.evidence == ("items, mixed, other, table, tied and users: every number is 4 times the expected "
                                  "one: not averaged")


@pytest.mark.parametrize(("field", "value"), [
    ("dense", "sum"), ("sparse", "sum"), ("sparse", "per-row-count"), ("sparse", "per-occurrence"),
    ("duplicates", "last"),
    ("loss", "mean-of-means"), ("loss", "sum"), ("untouched", "decayed"),
    ("clip_point", "before"), ("clip_norm", "dense"),
    ("clip_norm", "occurrences"), ("window", "sum"), ("partial", "dropped"), ("partial", "applied-by-window")])
@pytest.mark.thorough("clip_point", "loss-mean")
def test_a_wrong_manifest_is_told_by_the_numbers(field, value):
    """The implementation follows a rule that its manifest does not declare."""
    assert first(undeclared(**{field: value}), 2).code == f"{field}={value}"


@pytest.mark.thorough
def test_the_other_way_round():
    assert first(declares(dense="sum"), 2).code == "dense=average"
    assert first(declares(untouched="decayed"), 2).code == "untouched=kept"


def test_two_wrong_rules_at_once():
    """Dense and sparse gradients both summed: no single rule explains an update, both together do."""
    cases = [case_named(name, 3) for name in ("update/sgd", "update/adam", "clip/norm")]
    outcome = run_local(undeclared(dense="sum", sparse="sum"), 3, cases)
    assert {d.code for d, _ in summary(outcome.failed)} == {"dense=sum and sparse=sum"}


def test_which_ranks_and_which_variable():
    resumed = [f"resume/{optimizer}" for optimizer in ("sgd", "momentum", "adagrad", "adam")]
    assert first(RateOnRankZeroOnly, 4, resumed).words.endswith("after resuming, on ranks 1, 2 and 3")
    assert "not broadcast, of items alone" in first(TableNotBroadcast, 3, ["update/starts", "update/sgd"]).words


def _flushed(self, right, arrays, divisor=None):
    total = right(arrays, divisor)
    return np.where(np.abs(total) < np.finfo(total.dtype).tiny, 0, total).astype(total.dtype)


def _in_half_digits(self, right, arrays, divisor=None):
    return right([a.astype(np.float32) for a in arrays], divisor).astype(arrays[0].dtype)


def _wrong_on_the_last(self, right, arrays):
    return {n: a + self.world.rank // (self.world.size - 1) for n, a in right(arrays).items()}


@pytest.mark.parametrize(("make", "case", "code"), [
    (planted(mean=_flushed), "dense/denormals", "denormals-flushed"),
    (planted(mean=_in_half_digits), "dense/cancelling-float64", "lost-digits"),
    (TooLow, "dense/exact-float32", "unexplained=aggregate_dense"),
    (Permuted, "dense/exact-float32", "columns-reversed"),
    (planted(aggregate_dense=_wrong_on_the_last), "dense/exact-float64", "unexplained=aggregate_dense")])
def test_other_words(make, case, code):
    assert first(make, 4, [case]).code == code


def test_what_is_not_explained_says_where():
    diagnosis = first(TooLow, 2, ["rows/exact"])
    assert diagnosis.vague and "table[" in diagnosis.evidence and "expected" in diagnosis.evidence


def test_an_error_that_has_nothing_to_do_with_empty_rows():
    def broken(self, right, gradients, shapes):
        raise RuntimeError("not today")

    names = ["rows/exact", "rows/empty-on-first", "rows/empty-on-last", "rows/empty-on-all"]
    diagnosis = first(planted(aggregate_rows=broken), 2, names)
    assert diagnosis.code == "error" and "not today" in diagnosis.evidence


def test_rows_that_momentum_alone_moves(monkeypatch):
    """PyTorch's meaning: correct where it is declared, and told from the other where it is not."""
    assert first(declares(untouched="decayed-by-momentum"), 2, ["update/rows-at-rest"]).code == "untouched=kept"
    monkeypatch.setattr(runner, "diagnose", lambda pairs: None)  # which takes most of the time
    outcome = run_local(undeclared(untouched="decayed-by-momentum"), 2)
    assert {v.case for v in outcome.failed} == {"update/momentum", "update/momentum-rate", "update/rows-at-rest",
                                                "update/remainders", "resume/momentum", "update/nesterov",
                                                "update/dampened", "update/row-decay"}


def test_two_wrong_rules_at_once_are_both_told():
    cases = [case_named(name, 2) for name in ("rows/negative-zero", "update/rows-at-rest", "update/momentum")]
    outcome = run_local(declares(sparse="sum", untouched="decayed"), 2, cases)
    found = {d.code: cases for d, cases in summary(outcome.failed)}
    assert set(found["untouched=kept and sparse=average"]) >= {"update/rows-at-rest", "update/momentum"}
    assert "rows/negative-zero" in found["sparse=average"]


RootsGradient = planted(aggregate_dense=lambda self, right, arrays: (right(arrays), self.world.allgather(arrays)[0])[1])
IdsShifted = planted(merge=lambda self, right, parts: ((merged := right(parts))[0] + 1, merged[1]))


def _rows_of_all_only(self, right, parts):
    ids, rows = right(parts)
    everywhere = np.array([all(k in p[0] for p in parts) for k in ids], bool)
    return ids[everywhere], rows[everywhere]


def _row_zero_lost(self, right, parts):
    ids, rows = right(parts)
    return ids[ids != 0], rows[ids != 0]


TooFewRanks = planted(mean=lambda self, right, arrays, divisor=None: right(
    arrays, max(1, self.world.size - 1) if divisor is None else divisor))


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_one_ranks_gradient_handed_on(ranks):
    """On 4 ranks the base-4 digits of an average of it say "rank 1 once": they must not be asked first."""
    diagnosis = first(RootsGradient, ranks, ["dense/provenance", "dense/exact-float32", "dense/steps"])
    assert diagnosis.code == "one-rank-alone" and "rank 0's gradient alone" in diagnosis.words


@pytest.mark.parametrize(("make", "cases", "wrong"), [
    (IdsShifted, ["rows/provenance"], "rank-miscounted"),
    (planted(merge=_rows_of_all_only), ["rows/empty-on-all"], "ids-of-another"),
    (planted(merge=_row_zero_lost), ["rows/empty-on-all"], "buffer-reused"),
    (TooFewRanks, ["dense/half-overflow", "dense/provenance"], "half-overflow")])
def test_what_explains_by_chance_is_not_said(make, cases, wrong):
    codes = {d.code for d, _ in summary(run_local(make, 3, [case_named(name, 3) for name in cases]).failed)}
    assert codes and wrong not in codes


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "bfloat16, cut off"])
def test_compressed_on_the_wire(dtype):
    compressed = planted(aggregate_dense=lambda self, right, arrays: right(
        {n: NARROW[dtype](a) for n, a in arrays.items()}))
    diagnosis = first(compressed, 3, ["dense/exact-float32", "dense/cancelling-float32"])
    assert diagnosis.words == f"each rank's numbers pass through {dtype} before they are added"


def test_one_message_of_everything_is_no_limit_in_elements():
    one_message = planted(buckets=lambda self, right, arrays: [sorted(arrays)])
    assert first(one_message, 2, ["dense/fusion"]).code == "fusion-unlimited"
