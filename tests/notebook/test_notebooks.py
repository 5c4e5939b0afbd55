"""What can be said of the stored notebooks without executing them: they are text, whole, and of no one machine."""

import json
import re
from pathlib import Path

import pytest

from refimpl.notebook.__main__ import chosen, in_order, main

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = in_order(FOLDER)
GLOSSARY = FOLDER.parent / "docs" / "glossary.md"
NOTATION = Path(__file__).with_name("notation.txt").read_text().strip()
"""The cell "notation", the same in every lesson."""
PROSE_WIDTH = 120
WORDS_A_MINUTE, LINES_A_MINUTE, MINUTES_A_SOURCE, MINUTES_AN_EXERCISE = 120, 8, 8, 8
"""As a student works who meets the subject for the first time. A source is a whole file of the project."""
SAID = re.compile(r"(?m)^\*About (\d+) minutes\. Builds on .+\.\*$")
OF_A_MACHINE = re.compile(r"(?<![\w.])/(?:tmp|home|root|work|usr)/|0x[0-9a-f]{8,}")


def problems(notebook: dict, folder: Path) -> list[str]:
    """Return one line for each thing that a stored notebook must not have, or lacks."""
    found = []
    for number, cell in enumerate(notebook["cells"]):
        where, tags = f"cell {number} ({cell.get('id')})", cell["metadata"].get("tags", [])
        rest = [c for c in notebook["cells"][number + 1:] if c["cell_type"] == "markdown"]
        if set(cell["metadata"]) - {"tags", "held"} or cell.get("execution_count") is not None:
            found.append(f"{where}: not stored by python -m refimpl.notebook store")
        if "exercise" in tags and not any("<details>" in "".join(c["source"]) for c in rest):
            found.append(f"{where}: an exercise without a solution")
        for output in cell.get("outputs", ()):
            said = json.dumps(output)
            if output.get("name") == "stderr":
                found.append(f"{where}: a warning is part of the lesson")
            if OF_A_MACHINE.search(said) or "image/png" in said:
                found.append(f"{where}: a path or address of one machine, or a picture that is no text")
            for source, alt in re.findall(r'<img src="([^"]+)" alt="([^"]*)"', "".join(
                    output.get("data", {}).get("text/html", ""))):
                if not (folder / source).exists() or not alt.strip():
                    found.append(f"{where}: {source} is missing, or without words in its place")
    return found


def other_form(notebook: dict, number: int, following: str) -> list[str]:
    """Return one line for each thing in which a notebook does not look like the others; following: the next file."""
    sources = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    prose = "\n".join(source for source in sources if source != NOTATION)  # a row of a table is one line
    exercises = sum("exercise" in cell["metadata"].get("tags", []) for cell in notebook["cells"])
    found = [f"a line of {len(line)} characters: {line[:40]}" for line in prose.splitlines() if len(line) > PROSE_WIDTH]
    wanted = {f"the title # {number}. Its name, and below it a question in italics": rf"\A# {number}\. \S.*\n\n\*\S",
              "how long it takes and what comes before it": SAID.pattern,
              "what one can do afterwards": r"(?m)^After (this notebook|it) you can( say)?$",
              "a **Predict:** before a result": r"(?m)^\*\*Predict:\*\* ",
              "## Where this lives today": r"(?m)^## Where this lives today$",
              "## What to take along": r"(?m)^## What to take along$",
              "the code behind it": r"(?m)^\*Code behind this notebook\*: ",
              f"a link to {following}": re.escape(f"]({following})")}
    found += [f"lacks {what}" for what, pattern in wanted.items() if not re.search(pattern, prose)]
    if NOTATION not in sources:
        found.append("lacks the notation, as it stands in notation.txt")
    numbers = [int(given) for given in re.findall(r"(?m)^### Exercise (\d+)\b", prose)]
    if numbers != list(range(1, exercises + 1)):
        found.append(f"{exercises} exercises, with the numbers {numbers}")
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_is_whole(path):
    assert problems(json.loads(path.read_text()), FOLDER) == []


@pytest.mark.parametrize("number", range(len(NOTEBOOKS)))
def test_notebooks_have_one_form(number):
    following = [path.name for path in NOTEBOOKS] + ["../README.md"]
    assert other_form(json.loads(NOTEBOOKS[number].read_text()), number, following[number + 1]) == []


def minutes(notebook: dict) -> float:
    """Return how long a lesson takes: its words, its lines of code, sources that it shows, and its exercises."""
    prose = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    read = re.sub(r"<details>.*?</details>", "", prose, flags=re.DOTALL).replace(NOTATION, "")
    code = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    lines, sources = sum(bool(line.strip()) for line in code.splitlines()), code.count("show_source(\"")
    exercises = sum("exercise" in cell["metadata"].get("tags", []) for cell in notebook["cells"])
    return (len(read.split()) / WORDS_A_MINUTE + lines / LINES_A_MINUTE + sources * MINUTES_A_SOURCE
            + exercises * MINUTES_AN_EXERCISE)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_minutes_that_a_lesson_names_are_honest(path):
    notebook = json.loads(path.read_text())
    said = int(SAID.search("".join(notebook["cells"][0]["source"]))[1])
    assert said % 5 == 0 and abs(said - minutes(notebook)) <= 5, f"about {minutes(notebook):.0f}"


def test_links_to_the_glossary_find_their_word():
    """Headings are lower case, and words alone: JupyterLab, GitHub and the website make different anchors of others."""
    words = [line[3:] for line in GLOSSARY.read_text().splitlines() if line.startswith("## ")]
    assert [word for word in words if not re.fullmatch("[a-z -]+", word)] == []
    there = {word.replace(" ", "-") for word in words}
    linked = {anchor for path in NOTEBOOKS for anchor in re.findall(r"glossary\.md#([\w-]+)", path.read_text())}
    assert linked - there == set()


def test_another_form_is_seen():
    cells = [{"cell_type": "markdown", "metadata": {}, "source": "# 2 - Rings\n\n" + 121 * "x"},
             {"cell_type": "code", "metadata": {"tags": ["exercise"]}, "source": "check(...)"}]
    found = other_form({"cells": cells}, 2, "3_more.ipynb")
    assert found[0].startswith("a line of 121 characters") and found[-1] == "1 exercises, with the numbers []"
    assert len(found) == 11 and all(line.startswith("lacks ") for line in found[1:-1])


def test_every_picture_is_some_notebooks():
    shown = {name for path in NOTEBOOKS for name in re.findall(r"pictures/([\w-]+\.svg)", path.read_text())}
    assert {path.name for path in (FOLDER / "pictures").iterdir()} == shown


@pytest.mark.parametrize(("change", "said"), [
    ({"execution_count": 4}, "not stored by"),
    ({"metadata": {"tags": ["exercise"]}}, "without a solution"),
    ({"outputs": [{"name": "stderr", "text": ["Warning"]}]}, "a warning"),
    ({"outputs": [{"name": "stdout", "text": ["see /tmp/x"]}]}, "of one machine"),
    ({"outputs": [{"data": {"image/png": "aGk="}}]}, "no text"),
    ({"outputs": [{"data": {"text/html": ['<img src="pictures/none.svg" alt="a" />']}}]}, "none.svg is missing"),
])
def test_what_is_wrong_is_seen(change, said, tmp_path):
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "execution_count": None, "outputs": [], "source": "x"}
    assert problems({"cells": [cell]}, tmp_path) == []
    (problem,) = problems({"cells": [{**cell, **change}]}, tmp_path)
    assert problem.startswith("cell 0 (a): ") and said in problem


@pytest.mark.parametrize("names, found", [
    ([], ["1_a", "2_b", "10_c", "11_a"]), (["1"], ["1_a"]), (["10"], ["10_c"]),
    (["1_a", "11_", "2"], ["1_a", "11_a", "2_b"])])
def test_ten_comes_after_nine(names, found, tmp_path):
    for name in ("10_c", "1_a", "11_a", "2_b"):
        (tmp_path / f"{name}.ipynb").touch()
    assert [path.stem for path in chosen(names, tmp_path)] == found


def test_a_name_that_is_none_says_which_there_are(tmp_path):
    for name in ("10_c", "2_b"):
        (tmp_path / f"{name}.ipynb").touch()
    with pytest.raises(ValueError, match="no notebook '1'; there are 2_b, 10_c"):
        chosen(["1"], tmp_path)


def test_the_command_says_so(capsys):
    assert main(["store", "no-such-notebook"]) == 1 and "no notebook" in capsys.readouterr().err
