"""Mistakes that a tool makes in the specification: found in its code, planted one at a time, judged by decisions."""

import pytest

from mutants import generated
from mutants.places import Truth, placed
from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.diagnose import Diagnosis


def site(file, method, number=0):
    return [s for s in generated.sites() if (s.file, s.method) == (file, method)][number]


def test_each_file_has_places_and_the_adapter_none():
    assert {s.file for s in generated.sites()} == {"sgd", "optimizers", "optimizers_elsewhere", "sums", "updates"}
    assert len(set(generated.sites())) == len(generated.sites()) > 150


def test_a_mistake_changes_its_method_alone():
    planted = generated.adapter(site("updates", "clip_factor"))
    right, wrong = (kind.clip_factor.__code__.co_code for kind in (Reference, planted))
    assert planted.__mro__[0].__name__ == "Reference" and right != wrong
    assert planted.rate.__code__.co_code == Reference.rate.__code__.co_code


def test_a_mistake_is_seen_and_named_by_its_decision():
    row = generated.judged(site("updates", "micro_steps"), 2)
    assert row["seen"] and row["named"] and row["placed"] and not (row["false"] or row["unlike"]), row["sentences"]


def test_a_mistake_in_code_that_no_case_runs_changes_nothing():
    row = generated.judged(site("optimizers_elsewhere", "step"), 2)
    assert not (row["seen"] or row["unlike"]) and row["sentences"] == []


@pytest.mark.parametrize("code, wanted", [("scaled", {"divisor"}), ("dense=sum and sparse=sum", {"dense", "sparse"}),
                                          ("unexplained=update", set())])
def test_what_a_diagnosis_is_about(code, wanted):
    assert generated.about(code, 2) == wanted


ADAMS, ANY = {"adam", "adamw", "adam-hat"}, frozenset()


@pytest.mark.parametrize("file, method, number, optimizers, features, variables", [
    ("optimizers", "second", 0, ADAMS, set(), "both"),
    ("sgd", "__init__", 1, {"momentum", "nesterov", "dampened"}, set(), "both"),
    ("sums", "merge", 0, set(), set(), "rows"), ("sums", "norm_of", 0, set(), {"clip"}, "both"),
    *(("updates", "added", number, set(), {"window", "loss-scale", "clip"}, variables)
      for number, variables in ((0, "both"), (1, "dense"), (2, "rows")))])
def test_where_a_mistake_acts(file, method, number, optimizers, features, variables):
    assert generated.where(site(file, method, number)) == Truth(frozenset(optimizers), frozenset(features), variables)


ROWS, ADAM = Truth(ANY, ANY, "rows"), Truth(frozenset(ADAMS), ANY, "both")
CLIP = Truth(ANY, frozenset({"clip"}), "both")


@pytest.mark.parametrize("truth, words, evidence, case, right", [
    (ROWS, "negated, of row gradients alone", "", "update/sgd", True),
    (ROWS, "negated, of dense gradients alone", "", "update/sgd", False),
    (ROWS, "negated", "items and table: this explains", "update/sgd", True),
    (ROWS, "negated", "items, table and weight: this explains", "update/sgd", False),
    (ROWS, "negated, of row gradients alone, on rank 1", "", "update/sgd", False),
    (ROWS, "negated, of row gradients alone, from the second step on", "", "update/sgd", False),
    (ADAM, "negated, with adam alone", "items, table and weight:", "update/adam", True),
    (ADAM, "negated, with adagrad alone", "items, table and weight:", "update/adam", False),
    (ADAM, "negated", "items, table and weight:", "update/adagrad", False),  # it cannot show there
    (ADAM, "differ", "items, table and weight:", "update/adam", None),
    (CLIP, "differ, where gradients are clipped alone", "items, table and weight:", "clip/norm", True),
    (CLIP, "differ, after resuming alone", "items, table and weight:", "clip/norm", False)])
def test_whether_a_report_puts_a_mistake_where_it_acts(truth, words, evidence, case, right):
    """None: only if the name tells on what it depends."""
    for named in (False, True):
        assert placed(truth, Diagnosis("", words, evidence), [case], 2, named) is (named if right is None else right)
