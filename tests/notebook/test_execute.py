"""Real notebooks in a real kernel: errors, stale outputs, exercises and their solutions; and each of the lessons."""

import difflib

import pytest

nbformat = pytest.importorskip("nbformat", reason="the extra notebooks is not installed")
pytest.importorskip("nbclient", reason="the extra notebooks is not installed")

from refimpl.notebook.__main__ import FOLDER, in_order, main  # noqa: E402
from refimpl.notebook.execute import execute, store  # noqa: E402
from refimpl.notebook.stored import MEASURED, normalised, tags  # noqa: E402

new = nbformat.v4
DEFINE = """from refimpl.notebook import exercise, right, wrong
@exercise
def check_six(answer):
    return right("six") if answer == 6 else wrong("count")
x = 1"""
SOLUTION = "<details><summary>Solution</summary>\n\n```python\nanswer = {}\ncheck_six(answer)\n```\n\n</details>"


def notebook(path, *cells):
    made = [new.new_markdown_cell(source) if source.startswith("<") else
            new.new_code_cell(source, metadata={"tags": list(tags)}) for source, *tags in cells]
    for number, cell in enumerate(made):
        cell.id = f"c{number}"
    nbformat.write(new.new_notebook(cells=made), path)
    return path


def check(path):
    """Execute a notebook; return what failed, and where it is not what is stored, but for what cells measure."""
    executed, problems = execute(path)
    if problems:
        return problems
    stored, (now, _) = nbformat.read(path, 4), normalised(executed, path.stem)
    for number, (old, cell) in enumerate(zip(stored.cells, now.cells)):
        if MEASURED in tags(cell):
            cell.outputs = old.outputs
        lines = [nbformat.writes(new.new_notebook(cells=[of])).splitlines() for of in (old, cell)]
        if changed := list(difflib.unified_diff(*lines, "stored", "executed", lineterm="", n=0)):
            problems.append("\n".join([f"cell {number} ({cell.id}): stale", *changed]))
    return problems or ["it is not written as store writes it"] * (path.read_text() != nbformat.writes(now) + "\n")


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("path", in_order(FOLDER), ids=lambda path: path.stem)
def test_a_lesson_is_stored_as_it_is_executed(path):
    assert check(path) == []


def test_stored_then_checked_then_stale(tmp_path):
    path = notebook(tmp_path / "1_x.ipynb", (DEFINE,), ("answer = ...\ncheck_six(answer)", "exercise"),
                    (SOLUTION.format(6),), ("print(x + 1)\nx + 2",), ("raise KeyError('asked')", "raises-exception"),
                    ("import time\ntime.time()", "measured"))
    assert store(path) == []
    assert len(nbformat.read(path, 4).cells) == 6
    assert check(path) == []
    stored = path.read_text()
    path.write_text(stored.replace('"2\\n"', '"3\\n"').replace("raise KeyError('asked')", "raise KeyError('other')"))
    numbers, error = check(path)
    assert numbers.splitlines()[0] == "cell 3 (c3): stale" and numbers.splitlines()[-2:] == [
        '-      "3\\n"', '+      "2\\n"']
    assert error.startswith("cell 4 (c4): stale") and "+      \"KeyError: 'other'\"" in error
    path.write_text(stored.replace("Python 3", "Mine"))
    assert check(path) == ["it is not written as store writes it"]


def test_wrong_solutions_and_checks_that_say_too_much_are_found(tmp_path):
    path = notebook(tmp_path / "1_x.ipynb", (DEFINE,), ("check_six(5)", "exercise"), (SOLUTION.format(7),),
                    ("answer = ...\ncheck_six(answer)", "exercise"), (SOLUTION.format("1 / 0"),),
                    ("x", "raises-exception"))
    before = path.read_text()
    assert store(path) == ["cell 5 (c5): is tagged raises-exception, and raises none"]
    path.write_text(path.read_text().replace("raises-exception", "fine"))
    problems = store(path)
    assert "does not say 'not answered yet'" in problems[0] and "not right: not yet: count" in problems[1]
    assert "not right: ZeroDivisionError" in problems[2] and len(problems) == 3
    assert path.read_text() == before.replace("raises-exception", "fine"), "what fails is not stored"


def test_prose_that_the_kernel_contradicts_is_a_problem(tmp_path):
    path = notebook(tmp_path / "1_x.ipynb", ("crossing = 0.0119",), ("<p>below 0.012</p>",))
    written = nbformat.read(path, 4)
    written.cells[1].metadata["held"] = {"0.012": "crossing"}
    nbformat.write(written, path)
    assert store(path) == check(path) == []
    path.write_text(path.read_text().replace("0.012", "0.03"))
    assert check(path) == ["cell 1 (c1): it says '0.03', but crossing gives 0.01"]


def test_an_error_ends_it_and_names_the_cell(tmp_path):
    path = notebook(tmp_path / "1_x.ipynb", ("x = 1",), ("x + missing",), ("x",))
    assert store(path) == ["cell 1 (c1): NameError: name 'missing' is not defined"]


def test_what_failed_is_told_below_the_notebooks_name(tmp_path, capsys):
    paths = [notebook(tmp_path / f"{n}_x.ipynb", (source,)) for n, source in ((1, "x = 1"), (2, "missing"))]
    assert main(["store", *map(str, paths)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("ok     1_x.ipynb") and said[1].startswith("FAILED 2_x.ipynb")
    assert said[2] == "  cell 0 (c0): NameError: name 'missing' is not defined"


def test_every_exercise_needs_a_solution(tmp_path):
    path = notebook(tmp_path / "1_x.ipynb", (DEFINE,), ("check_six(...)", "exercise"), ("<p>no solution</p>",))
    assert store(path) == ["cell 1 (c1): its solution is not right: there is none"]
