"""Storing and checking real notebooks in a real kernel: errors, stale outputs, exercises and their solutions."""

import pytest

nbformat = pytest.importorskip("nbformat", reason="the extra notebooks is not installed")
pytest.importorskip("nbclient", reason="the extra notebooks is not installed")

from refimpl.notebook.__main__ import main  # noqa: E402
from refimpl.notebook.execute import check, solutions, store  # noqa: E402

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


def test_stored_then_checked_then_stale(tmp_path):
    path = notebook(tmp_path / "1_x.ipynb", (DEFINE,), ("answer = ...\ncheck_six(answer)", "exercise"),
                    (SOLUTION.format(6),), ("print(x + 1)\nx + 2",), ("raise KeyError('asked')", "raises-exception"),
                    ("import time\ntime.time()", "measured"))
    assert store(path)[0] == []
    assert len(nbformat.read(path, 4).cells) == 6
    assert check(path)[0] == []
    stored = path.read_text()
    path.write_text(stored.replace('"2\\n"', '"3\\n"').replace("raise KeyError('asked')", "raise KeyError('other')"))
    assert check(path)[0] == ["cell 3 (c3): stale output\n    stored:   3\n    executed: 2",
                              "cell 4 (c4): stale output\n    stored:   KeyError: 'asked'\n"
                              "    executed: KeyError: 'other'"]


def test_wrong_solutions_and_checks_that_say_too_much_are_found(tmp_path):
    path = notebook(tmp_path / "1_x.ipynb", (DEFINE,), ("check_six(5)", "exercise"), (SOLUTION.format(7),),
                    ("answer = ...\ncheck_six(answer)", "exercise"), (SOLUTION.format("1 / 0"),),
                    ("x", "raises-exception"))
    before = path.read_text()
    assert store(path)[0] == ["cell 5 (c5): is tagged raises-exception, and raises none"]
    path.write_text(path.read_text().replace("raises-exception", "fine"))
    problems, _ = store(path)
    assert "does not say 'not answered yet'" in problems[0] and "not right: not yet: count" in problems[1]
    assert "not right: ZeroDivisionError" in problems[2] and len(problems) == 3
    assert path.read_text() == before.replace("raises-exception", "fine"), "what fails is not stored"


def test_prose_that_the_kernel_contradicts_is_a_problem(tmp_path):
    path = notebook(tmp_path / "1_x.ipynb", ("crossing = 0.0119",), ("<p>below 0.012</p>",))
    written = nbformat.read(path, 4)
    written.cells[1].metadata["held"] = {"0.012": "crossing"}
    nbformat.write(written, path)
    assert store(path)[0] == check(path)[0] == []
    path.write_text(path.read_text().replace("0.012", "0.03"))
    assert check(path)[0] == ["cell 1 (c1): it says '0.03', but crossing gives 0.01"]


def test_an_error_ends_it_and_names_the_cell(tmp_path):
    path = notebook(tmp_path / "1_x.ipynb", ("x = 1",), ("x + missing",), ("x",))
    assert store(path)[0] == ["cell 1 (c1): NameError: name 'missing' is not defined"]


def test_several_at_once_are_told_in_order(tmp_path, capsys):
    paths = [notebook(tmp_path / f"{n}_x.ipynb", (source,)) for n, source in ((1, "x = 1"), (2, "missing"))]
    assert main(["store", *map(str, paths), "--jobs", "2"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("ok     1_x.ipynb") and said[1].startswith("FAILED 2_x.ipynb")
    assert said[2] == "  cell 0 (c0): NameError: name 'missing' is not defined"


def test_every_exercise_needs_a_solution():
    cells = [new.new_code_cell("check(...)", metadata={"tags": ["exercise"]}), new.new_markdown_cell("no solution")]
    with pytest.raises(ValueError, match="an exercise without a solution"):
        solutions(new.new_notebook(cells=cells))
    cells[1].source = SOLUTION.format(6)
    assert solutions(new.new_notebook(cells=cells)) == [(0, "answer = 6\ncheck_six(answer)\n")]
