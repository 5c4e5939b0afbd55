"""A module's source as a cell's output."""

from pathlib import Path

import pytest

import refimpl.plain.ring
from refimpl.notebook import show_source


def test_the_whole_file_is_shown_with_a_link():
    shown = show_source("refimpl.plain.ring")._repr_mimebundle_()
    text = Path(refimpl.plain.ring.__file__).read_text()
    assert shown["text/plain"] == text and f"```python\n{text}```" in shown["text/markdown"]
    assert shown["text/markdown"].startswith("[`refimpl/plain/ring.py`](../refimpl/plain/ring.py)")


@pytest.mark.parametrize("name", ["refimpl.plain.rings", "no_such.module", "json"])
def test_what_is_no_module_of_ours_is_refused(name):
    with pytest.raises(ValueError, match=f"'{name}' is no module of this repository; one is refimpl.plain.ring"):
        show_source(name)
