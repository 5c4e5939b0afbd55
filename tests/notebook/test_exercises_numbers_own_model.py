"""The exercises of notebooks 6 and 7 refuse wrong answers with a hint; solutions are executed with the notebooks."""

import numpy as np
import pytest

from kernels import aggregate_rows, unique_ids
from models import Variable
from models.vision.cross_entropy import cross_entropy
from refimpl.conformance.cases import all_cases
from refimpl.conformance.diagnose import summary
from refimpl.conformance.runner import run_local
from refimpl.notebook.exercises.numbers import SUSPECT, check_bug, check_counts, check_tree
from refimpl.notebook.exercises.own_model import check_dense_bytes, check_times, check_votes


@pytest.mark.parametrize("counts, hint", [([1, 1, 1, 1], "would give 85"), ([2, 1, 1], "give 4 numbers"),
                                          ([22, 0, 0, 0], "a digit of base 4")])
def test_wrong_counts(counts, hint):
    assert check_counts(counts).right is False and hint in check_counts(counts).why


def test_the_right_counts():
    assert check_counts([2, 1, 1, 0]).right and check_counts(...).right is None


def halves(values):
    """Halves instead of pairs: the tree for powers of two alone."""
    middle = len(values) // 2
    return values[0] if len(values) == 1 else halves(values[:middle]) + halves(values[middle:])


@pytest.mark.parametrize("add_up, hint", [
    (sum, "one after the other"), (lambda values: np.sum(np.array(values, "float64")), "your sum is"),
    (halves, "what becomes of a number without a neighbour")])
def test_other_orders_are_not_the_tree(add_up, hint):
    assert check_tree(add_up).right is False and hint in check_tree(add_up).why


def test_an_unwritten_sum_is_no_answer():
    assert check_tree(lambda values: ...).right is None


def test_the_suspects_code_is_what_the_suite_says():
    cases = [case for case in all_cases(4) if case.name.startswith("rows/ids")]
    (diagnosis, _), = summary(run_local(SUSPECT, 4, cases).failed)
    assert check_bug(diagnosis.code).right
    assert "32 bits" in check_bug("ids-int32").why and "in sparse=" in check_bug("rounding").why


def test_bytes_and_times():
    assert check_dense_bytes(306.0).right and check_times(8).right
    for count, hint in ((204, "one copy"), (408, "its own part"), (612, "in and out"), (76, "elements"), (5, "how many elements")):
        assert check_dense_bytes(count).right is False and hint in check_dense_bytes(count).why
    assert "on 2 ranks" in check_times(4).why and "8 means" in check_times(256).why


class Votes:
    """The exercise's class; ``gradients_of`` is the reader's part."""

    def __init__(self, vocabulary, dtype="float32"):
        votes, bias = (vocabulary, 3), (3,)
        self.variables = [Variable("votes", votes, sparse=True, dtype=dtype), Variable("bias", bias, dtype=dtype)]

    def rows_needed(self, batch):
        return {"votes": unique_ids(batch.inputs.ravel())}

    def loss_and_gradients(self, dense, rows, batch):
        place = np.searchsorted(self.rows_needed(batch)["votes"], batch.inputs)
        scores = rows["votes"][place].mean(axis=1) + dense["bias"]
        losses, slope = cross_entropy(scores, batch.targets)
        return losses.sum() / batch.normaliser, self.gradients_of(batch, slope / batch.normaliser)


def answered_with(gradients_of):
    return type("Answer", (Votes,), {"gradients_of": lambda self, batch, slope: gradients_of(batch, slope)})


def each(batch, slope, share):
    return aggregate_rows(batch.inputs.ravel(), np.repeat(slope * share, batch.inputs.shape[1], axis=0))


def test_votes_are_checked_against_the_loss():
    assert check_votes(answered_with(lambda b, s: {"votes": each(b, s, 1 / 5), "bias": s.sum(axis=0)})).right
    for wrong in ({"votes": lambda b, s: each(b, s, 1.0)}, {"bias": lambda b, s: s.mean(axis=0)},
                  {"votes": lambda b, s: np.zeros((40, 3))}):
        parts = {"votes": lambda b, s: each(b, s, 1 / 5), "bias": lambda b, s: s.sum(axis=0), **wrong}
        verdict = check_votes(answered_with(lambda b, s: {name: part(b, s) for name, part in parts.items()}))
        assert verdict.right is False and f"'{next(iter(wrong))}'" in verdict.why


def test_places_are_not_the_words_own_numbers():
    def by_place(batch, slope):
        place = np.unique(batch.inputs, return_inverse=True)[1].ravel()
        return {"votes": aggregate_rows(place, np.repeat(slope / 5, 5, axis=0)), "bias": slope.sum(axis=0)}

    assert "place counts within the rows" in check_votes(answered_with(by_place)).why


def test_a_wrong_bias_has_a_hint_of_its_own():
    answer = answered_with(lambda b, s: {"votes": each(b, s, 1 / 5), "bias": s.mean(axis=0)})
    assert "The bias is added" in check_votes(answer).why


def test_unwritten_votes_are_no_answer():
    assert check_votes(answered_with(lambda b, s: {"votes": ..., "bias": ...})).right is None
    assert check_votes(answered_with(lambda b, s: ...)).right is None
