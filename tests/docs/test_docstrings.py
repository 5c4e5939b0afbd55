"""Docstrings as reStructuredText."""

import pytest

pytest.importorskip("sphinx", reason="the extra docs is not installed: make test-docs")
import docstrings  # noqa: E402


@pytest.mark.parametrize(
    ("plain", "rest"),
    [
        ("2**n_ of ``a < b``, *all* | ``x()``s", r"2\*\*n\_ of ``a < b``, \*all\* \| :py:obj:`x() <x>`\ s"),
        ("A tree:\n\n      +\n     / \\\n\n    0 1\n\nIt.", "A tree:\n\n::\n\n      +\n     / \\\n\n    0 1\n\nIt."),
        ("sgd     p -= g\nadam    m = b", "::\n\n    sgd     p -= g\n    adam    m = b"),
        ("Sum.\n\na, b: two\n    arrays.  c: one.\nMore.",
         "Sum.\n\n``a``, ``b``\n    two arrays.\n``c``\n    one. More."),
        ("it: all of it.  a: one.", "it: all of it.\n\n``a``\n    one."),
        ("It is so\nthat: no.", "It is so\nthat: no."),
        ("- one\n- two\n  lines", "- one\n- two\n  lines"),
    ],
)
def test_what_a_docstring_means(plain, rest):
    assert docstrings.convert(plain) == rest
