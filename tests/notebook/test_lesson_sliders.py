"""Sliders of lessons 1 and 3, moved: another value draws another picture."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"


def explorer(lesson, cell):
    """Return the explorer that a cell of a lesson ends with; what it needs is imported in the lesson's first cell."""
    cells = {c["id"]: "".join(c["source"]) for c in json.loads((FOLDER / lesson).read_text())["cells"]}
    setup = cells["setup"].replace("%load_ext refimpl.notebook\n", "")
    before, _, last = cells[cell].rpartition("explore(")
    names = {}
    exec(f"{setup}\n{before}found = explore({last}", names)
    return names["found"]


@pytest.mark.parametrize(("lesson", "cell"), [
    ("1_adding_up.ipynb", "lengths-explorer"), ("3_sparsity.ipynb", "cost-explorer")])
@pytest.mark.thorough("cost")
def test_each_slider_that_moves_draws_another_picture(lesson, cell):
    pytest.importorskip("ipywidgets", reason="the extra notebooks is not installed")
    *sliders, shown = explorer(lesson, cell).widget().children
    for slider in sliders:
        before = shown.value
        for _, slider.value in slider.options[0], slider.options[-1]:
            assert shown.value != before
            before = shown.value
