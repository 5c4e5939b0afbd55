"""The instructor's problem sets: solutions earn all points, none and likely mistakes earn none; students see no answer."""

import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks" / "instructor"
SETS = sorted((FOLDER / "source").glob("*/*.ipynb"))
POINTS, TESTED = 50, 40
FIELDS = {"grade", "grade_id", "locked", "schema_version", "solution", "task", "cell_type"}


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


def without_solutions(cells):
    """Return the cells that students get, by nbgrader's own hand."""
    nbformat = pytest.importorskip("nbformat", reason="the extra notebooks is not installed")
    preprocessors = pytest.importorskip("nbgrader.preprocessors", reason="the extra instructor is not installed")
    released = nbformat.from_dict({"cells": cells, "metadata": {"kernelspec": {"language": "python"}},
                                   "nbformat": 4, "nbformat_minor": 5})
    for step in (preprocessors.ClearSolutions(), preprocessors.ClearHiddenTests()):
        released, _ = step.preprocess(released, {})
    return released.cells


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_a_set_is_as_nbgrader_and_its_readers_expect(path):
    cells = cells_of(path)
    names = [graded(cell)["grade_id"] for cell in cells]
    assert len(set(names)) == len(names) and path.stem == path.parent.name
    for cell in cells:
        of = graded(cell)
        assert set(of) == FIELDS | ({"points"} if of["grade"] else set()), of["grade_id"]
        assert of["schema_version"] == 3 and of["cell_type"] == cell["cell_type"] and of["locked"] != of["solution"]
        assert cell.get("outputs", []) == [] and max(map(len, cell["source"].splitlines())) <= 120
    points = [(graded(cell)["points"], cell["cell_type"]) for cell in cells if graded(cell)["grade"]]
    assert sum(of for of, _ in points) == POINTS and sum(of for of, kind in points if kind == "code") == TESTED
    said = [int(given) for cell in cells for given in re.findall(r"^## \d\. .*\((\d+) points\)", cell["source"])]
    assert sum(said) == POINTS and 3 <= len(said) <= 4 and all(10 <= given <= 25 for given in said)
    (essay,) = (cell["source"] for cell in cells if graded(cell)["grade"] and cell["cell_type"] == "markdown")
    rubric = essay.partition("**Rubric.**")[2]
    assert sum(map(int, re.findall(r"(?<![\w$])(\d+):", rubric))) == 10


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_solutions_earn_all_points(path):
    run(cells_of(path))


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_students_get_no_answer_and_no_point_for_none(path):
    given = without_solutions(cells_of(path))
    text = "\n".join(cell.source for cell in given)
    assert not re.search(r"SOLUTION|HIDDEN|Rubric", text)
    assert all("def " in cell.source for cell in given if graded(cell)["solution"] and cell.cell_type == "code")
    for cell in given:
        if graded(cell)["grade"] and cell.cell_type == "code":
            with pytest.raises(NotImplementedError):
                run(given, graded(cell)["grade_id"])


MISTAKES = [
    ("problems_1", "folded", "from refimpl.plain.schedule import ring as folded", "rounds, 4 are enough"),
    ("problems_1", "folded", "from refimpl.plain.schedule import halving_doubling as folded",
     "3 ranks: a message from or to rank 3, which does not exist"),
    ("problems_1", "busiest", "from fractions import Fraction\ndef busiest(n): return Fraction(2 * n - 2, n)",
     "5 ranks: that is the lower bound; but a partner"),
    ("problems_1", "shorter", "import math\ndef longest(n, latency, bandwidth): return latency * bandwidth",
     "recursive doubling 0.0002 s"),
    ("problems_2", "traffic", "import numpy as np\ndef traffic(wanted, size):\n n = len(wanted)\n return np.array([[sum("
     "i % n == o for i in rows) * (8 + size) * (r != o) for o in range(n)] for r, rows in enumerate(wanted)])",
     "one row number"),
    ("problems_2", "deal", "import numpy as np\ndef deal(popularity, owners): return np.arange(len(popularity)) % owners",
     "4 owners: the busiest serves 1.277"),
    ("problems_2", "deal", "import numpy as np\ndef deal(popularity, owners): return np.sort(np.arange(2000) % owners)",
     "the busiest serves 3"),
    ("problems_2", "machine", "import numpy as np\ndef of_machine(alpha, workers): return workers * alpha, 1.0",
     "two workers miss a row"),
    ("problems_3", "draws", "import numpy as np\ndef expected_alpha(p, draws): return float(np.mean((1 - np.array(p)) "
     "** draws))", "each of two words is missed"),
    ("problems_3", "ways", "from fractions import Fraction\ndef whole_from(n, size): return Fraction(2, n), Fraction(1)",
     "the allgather carries 1.059 times"),
    ("problems_3", "machines", "def allgather_over_server(m, g, alpha): return m * g / 2", "24.000, and not 25.228"),
]


@pytest.mark.parametrize(("problems", "name", "answer", "said"), MISTAKES, ids=lambda of: str(of)[:12])
def test_a_likely_mistake_is_told(problems, name, answer, said):
    cells = cells_of(FOLDER / "source" / problems / f"{problems}.ipynb")
    at = cells.index(named(cells, name))
    test = next(graded(cell)["grade_id"] for cell in cells[at:] if graded(cell)["grade"])
    with pytest.raises((AssertionError, ValueError), match=re.escape(said)):
        run(cells, test, {name: answer})


def test_a_merge_that_counts_twice_is_told():
    cells = cells_of(FOLDER / "source" / "problems_2" / "problems_2.ipynb")
    wrong = ("import numpy as np\ndef of_machine(a, g): return 1 - (1 - a)**g, g * a / (1 - (1 - a)**g) if a else 1\n"
             "def merge(ids, rows): return np.concatenate(ids), np.concatenate(rows)")
    with pytest.raises(AssertionError, match="sorted, each once"):
        run(cells, "merge-test", {"machine": wrong})


SLIPS = [  # set, answer, test, what the solution says, what a student says instead, the hint
    ("problems_4", "loads", "loads-test", "+ 2 * (sum(dense) - own) for", "for", "message by message 200"),
    ("problems_4", "quarrel", "equal-test", " * (share * machines - 1) / ((machines - 1) * table)",
     " * share / table", "f = 1/2: at α = 0.0100 ps"),
    ("problems_4", "quarrel", "most-test", "Fraction(machines + 2, 4)", "Fraction(machines, 2)", "the other carries"),
    ("problems_4", "norm", "norm-test", 'kind == "rows" or rank == 0', "True", "a replica is the same gradient"),
    ("problems_4", "norm", "norm-test", 'kind == "rows" or rank == 0', 'kind == "rows"', "something is left out"),
    ("problems_4", "norm", "norm-test", "math.fsum(", "sum(", "in which order did you add?"),
    ("problems_5", "even", "even-test", "min(max(p, 1), owners)", "max(p, 1)", "t(40) = θ0 + 440.0000, and t(4) ="),
    ("problems_5", "even", "even-test", "(root, root + 1)", "(root,)", "t(2) = θ0 + 6.0000, and t(3) = θ0 + 5.66"),
    ("problems_5", "trap", "trap-test", "start + start // 2", "2 * start", "1.00 times as slow as the lowest, 16"),
    ("problems_5", "trap", "trap-test", "1.1 - 0.2 * (p - start / 2) / start", "1", "from 1 to 2 it goes"),
    ("problems_5", "apart", "apart-test", "Fraction(2,", "Fraction(1,", "in 2 of 2 orders they lie apart, you say"),
    ("problems_5", "apart", "needed-test", "(counts - 1) * apart", "apart", "6 counts, 5 samples of each: deceived"),
    ("problems_6", "digits", "most-test", "base, ranks = 2 * c + 1", "base, ranks = c + 1", "1 + 3 + 9 is not"),
    ("problems_6", "digits", "most-test", "c * sum(", "sum(", "counts up to 2 of either sign, 24 digits: 10 ranks"),
    ("problems_6", "digits", "counts-test", "(rest + c) % base - c", "rest % base", "not [1, 2, 2, 0] but [1, -1,"),
    ("problems_6", "digits", "counts-test", "if total != int(total)", "if False", "0.5 on 4 ranks, counts up to 1"),
    ("problems_6", "lose", "lose-test", "[1] * (n - 1)", "[0.5] * (n - 1)", "lose 1.5 / 2**24 of the first; 3 can"),
    ("problems_6", "lose", "lose-test", "[2**24, 2**24, -(2**25), 1]", "[2**24, 1, -2**24, 1]", "the tree gives 1.0"),
    ("problems_6", "adder", "adder-test", "if sibling not in", "if True or sibling not in", "it keeps both children"),
    ("problems_6", "adder", "adder-test", "middle = low + (1 << (high - low - 1).bit_length() - 1)",
     "middle = (low + high) // 2", "6 ranks: "),
    ("problems_7", "liking", "rows-test", "unique_ids(batch.inputs[:, 0])", "batch.inputs[:, 0]", "sorted, each"),
    ("problems_7", "liking", "slopes-test", "-slope * wanted])", "slope * wanted])", "gradient of 'items'"),
    ("problems_7", "liking", "slopes-test", '["matrix"].T', '["matrix"]', "gradient of 'users'"),
    ("problems_7", "liking", "slopes-test", "batch.normaliser", "len(user)", "divide by the normaliser, and"),
    ("problems_7", "sums", "sums-test", "1e-9 * abs(parts).sum(axis=0).max(initial=0)", "1e-8", "you let it pass"),
    ("problems_7", "sums", "sums-test", "1e-9 *", "0 *", "you accuse it, and it only rounds"),
    ("problems_7", "sums", "sums-test", '{"": np.array(float(loss))}', "{}", "LossTimesCount"),
    ("problems_7", "memory", "memory-test", "bincount(kinds[~held])", "bincount(kinds)", "among what is left kind 0"),
]


@pytest.mark.parametrize(("problems", "name", "test", "right", "slip", "said"), SLIPS)
def test_a_likely_slip_is_told(problems, name, test, right, slip, said):
    cells = cells_of(FOLDER / "source" / problems / f"{problems}.ipynb")
    solution = named(cells, name)["source"]
    assert right in solution
    with pytest.raises((AssertionError, ValueError), match=re.escape(said)):
        run(cells, test, {name: solution.replace(right, slip)})
