"""Pictures with sliders: a still picture where no kernel runs, another picture for another value where one does."""

import json
from pathlib import Path

import pytest

from refimpl.notebook import Slider, explore
from refimpl.notebook.sliders import WIDGET
from refimpl.pictures.picture import Picture

LESSONS = Path(__file__).parents[2] / "notebooks"


def draw(ranks, rate):
    return Picture(f"<svg>{ranks} {rate}</svg>", f"{ranks} ranks at {rate}")


def made():
    return explore(draw, ranks=Slider("ranks N", [2, 4, 8], start=4), rate=Slider("rate", ["slow", "fast"], "fast"))


def test_what_is_stored_is_the_picture_at_the_start():
    nbformat = pytest.importorskip("nbformat", reason="the extra notebooks is not installed")
    from refimpl.notebook.stored import normalised

    output = nbformat.v4.new_output("execute_result", data={WIDGET: {"model_id": "x"}, **made()._repr_mimebundle_()})
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", id="ways", outputs=[output])])
    stored, pictures = normalised(notebook, "3_x")
    assert pictures == {"3_x-ways.svg": "<svg>4 fast</svg>"}
    assert set(stored.cells[0].outputs[0].data) == {"text/plain", "text/html"}


def test_a_slider_that_moves_draws_another_picture():
    pytest.importorskip("ipywidgets", reason="the extra notebooks is not installed")
    explorer = made()
    ranks, rate, shown = explorer.widget().children
    assert (ranks.value, rate.value, shown.value) == (4, "fast", "<svg>4 fast</svg>")
    ranks.value = 8
    assert shown.value == "<svg>8 fast</svg>"
    assert WIDGET in explorer._repr_mimebundle_()


def test_without_ipywidgets_it_is_a_picture(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ipywidgets", None)
    assert made()._repr_mimebundle_() == draw(4, "fast")._repr_mimebundle_()


def test_a_slider_that_begins_nowhere_is_refused():
    with pytest.raises(ValueError, match=r"slider ranks begins at 5, which is none of its values: \[2, 4\]"):
        explore(draw, ranks=Slider("ranks N", [2, 4], start=5))


def explorer(lesson, cell):
    """Return the explorer that a cell of a lesson ends with; what it needs is imported in the lesson's first cell."""
    cells = {c["id"]: "".join(c["source"]) for c in json.loads((LESSONS / lesson).read_text())["cells"]}
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
