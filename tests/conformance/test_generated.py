"""Mistakes that a tool makes in the specification: found in its code, planted one at a time, judged by decisions."""

import pytest

from mutants import generated
from refimpl.conformance.adapters.reference import Reference


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
    assert row["seen"] and row["named"] and not (row["false"] or row["unlike"]), row["sentences"]


def test_a_mistake_in_code_that_no_case_runs_changes_nothing():
    row = generated.judged(site("optimizers_elsewhere", "step"), 2)
    assert not (row["seen"] or row["unlike"]) and row["sentences"] == []


@pytest.mark.parametrize("code, wanted", [("scaled", {"divisor"}), ("dense=sum and sparse=sum", {"dense", "sparse"}),
                                          ("unexplained=update", set())])
def test_what_a_diagnosis_is_about(code, wanted):
    assert generated.about(code, 2) == wanted
