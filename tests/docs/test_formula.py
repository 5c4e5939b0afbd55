"""Formulas in MathML."""

import pytest

pytest.importorskip("latex2mathml", reason="the extra docs is not installed: make test-docs")

from docs.website.formula import mathml  # noqa: E402


@pytest.mark.parametrize(
    ("latex", "part"),
    [
        ("x < y", 'alttext="x &lt; y"'),
        ("(0, -1)", '<mo form="prefix" lspace="0" rspace="0">&#x02212;</mo><mn>1</mn>'),
        ("a - b", "<mi>a</mi><mo>&#x02212;</mo><mi>b</mi>"),
        (r"\log p", '<mspace width="0.17em"/><mi>p</mi>'),
        (r"\log_2 N", '</msub><mspace width="0.17em"/><mi>N</mi>'),
        (r"\log(p)", "log</mi><mo"),
        (r"\alpha'", "<mo>&#x02032;</mo></msup>"),
        (r"m / P", '<mo lspace="0" rspace="0">'),
    ],
)
def test_what_is_mended(latex, part):
    assert part in mathml(latex, {"display_mode": False})


def test_display():
    assert 'display="block"' in mathml("x", {"display_mode": True})
    assert 'display="inline"' in mathml("x", {"display_mode": False})
