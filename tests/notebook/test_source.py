"""A module's source as a cell's output."""

import json
import re
from pathlib import Path

import pytest

import refimpl.plain.collectives.ring
from refimpl.notebook import show_source


def test_the_whole_file_is_shown_with_a_link():
    shown = show_source("refimpl.plain.collectives.ring")._repr_mimebundle_()
    text = Path(refimpl.plain.collectives.ring.__file__).read_text()
    assert shown["text/plain"] == text and f"```python\n{text}```" in shown["text/markdown"]
    assert shown["text/markdown"].startswith("[`refimpl/plain/collectives/ring.py`](../refimpl/plain/collectives/ring.py)")


@pytest.mark.parametrize("name", ["refimpl.plain.rings", "no_such.module", "json"])
def test_what_is_no_module_of_ours_is_refused(name):
    with pytest.raises(ValueError, match=f"'{name}' is no module of this repository; one is refimpl.plain.collectives.ring"):
        show_source(name)


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb")), ids=lambda of: of.stem)
def test_a_source_that_a_lesson_has_stored_is_the_files(path):
    """As a kernel would show it, but without one: whoever changes a plain file finds out here."""
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if shown := re.search(r'^show_source\("(.+)"\)$', "".join(cell["source"]), re.MULTILINE):
            (output,) = cell["outputs"]
            assert {kind: "".join(text) for kind, text in output["data"].items()} == \
                show_source(shown[1])._repr_mimebundle_(), f"python -m refimpl.notebook store {path.stem}"
