"""The manifest: versioned JSON, and refusals that name the culprit."""

import json

import pytest

from refimpl.conformance.semantics import CHOICES, FORMAT, Semantics, page


def test_there_and_back():
    semantics = Semantics(name="mine", sparse="per-row-count", supports=("adam",), fusion_bytes=64)
    assert Semantics.from_json(json.loads(json.dumps(semantics.to_json()))) == semantics


@pytest.mark.parametrize(("change", "words"), [
    ({"format": FORMAT + 1}, "this version reads format"),
    ({"sparse": "mean"}, "sparse is 'mean'; it may be sum, average"),
    ({"dens": "sum"}, r"unknown field 'dens' - at `\$`; it has name, dense"),
    ({"dtypes": ["bfloat16"]}, "dtypes has 'bfloat16'"),
])
def test_refusals(change, words):
    with pytest.raises(ValueError, match=words):
        Semantics.from_json({**Semantics().to_json(), **change})


def test_every_rule_is_on_the_page():
    for field, values in CHOICES.items():
        for value, meaning in values.items():
            assert any(field in line and value in line and meaning in line for line in page().splitlines())
