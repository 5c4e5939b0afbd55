"""Problem sets of the lessons in tests: read their cells, execute them, answer wrongly."""

import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks" / "instructor"


def cells_of(path):
    return [{**cell, "source": "".join(cell["source"])} for cell in json.loads(path.read_text("utf-8"))["cells"]]


def graded(cell):
    return cell["metadata"]["nbgrader"]


def named(cells, name):
    return next(cell for cell in cells if graded(cell)["grade_id"] == name)


def run(cells, until=None, instead=None):
    """Execute code cells, up to the one with that name; instead: name of a cell -> other source. Return the names."""
    names = {"__name__": "problems"}
    for cell in cells:
        name = graded(cell)["grade_id"]
        if cell["cell_type"] == "code":
            exec(compile((instead or {}).get(name, cell["source"]), name, "exec"), names)
        if name == until:
            break
    return names


def slip_is_told(problems, name, test, right, slip, said):
    """Say ``slip`` where the solution in the cell of that name says ``right``: the named test must say so."""
    def slipped(solution):
        assert solution.count(right), f"the solution has no {right!r}"
        return solution.replace(right, slip)

    is_told(problems, name, slipped, said, test)


def is_told(problems, name, wrong, said, test=None):
    """Give wrong(solution) in the cell of that name: the next test of a set, or the named one, must say so."""
    cells = cells_of(FOLDER / "source" / problems / f"{problems}.ipynb")
    answered = named(cells, name)
    below = cells[cells.index(answered):]
    test = test or next(graded(cell)["grade_id"] for cell in below if graded(cell)["grade"])
    given = {name: wrong(answered["source"])}
    with pytest.raises((AssertionError, ValueError), match=re.escape(said)):
        run(cells, test, given)
