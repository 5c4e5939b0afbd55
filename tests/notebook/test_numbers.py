"""Numbers in prose: what must be held, what holds it, and what is seen where nothing does."""

import ast
import json
import re

import pytest

from refimpl.notebook.__main__ import FOLDER, in_order
from refimpl.notebook.held import complaints

PAPER = FOLDER.parent / "docs" / "paper.md"
WORDS_OF_PROSE = 4
"""A text of so many words in a code cell is prose: the words of a picture."""
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_SKIPPED = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|<[^>]+>", re.DOTALL)
_FACTOR = re.compile(r"\s*(?:%|×|\\times\b(?!\s*\d)|times\b)")


def unheld(notebook: dict, known: str | None = None) -> list[str]:
    """Return one line for each number in a notebook's prose that nothing holds.

    What counts: fractions, whole numbers from 100 on (years are not), and factors and percentages, in Markdown and in
    the words of pictures. It is held if the cell's metadata holds it, or code or output of the lesson has the very same
    digits, or the paper's facts (known: docs/paper.md) do.
    """
    there = _numbers(PAPER.read_text("utf-8") if known is None else known)
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            there |= _of_code(source) | _numbers(_printed(cell))
        else:
            there |= {number for code in re.findall(r"```.*?```", source, re.DOTALL) for number in _numbers(code)}
    found = []
    for place, cell in enumerate(notebook["cells"]):
        said = " ".join(_prose(cell).split())  # where a line ends is no matter
        for phrase in cell["metadata"].get("held", {}):
            words = " ".join(phrase.split())
            if words not in said:
                found.append(f"cell {place} ({cell.get('id')}): holds {words!r}, and does not say it")
            said = said.replace(words, " ")
        found += [f"cell {place} ({cell.get('id')}): nothing computes {number}"
                  for number in claims(said) if number not in there]
    return found


def claims(text: str) -> list[str]:
    """Return the numbers of a text that must be held, without commas, in their order."""
    found = []
    for match in re.finditer(rf"(?<![\w.]){_NUMBER}", text):
        written = match[0].rstrip(",")
        number = written.replace(",", "")
        whole = "." not in number
        small = whole and int(number) < 100
        year = written.isdecimal() and 1900 <= int(number) <= 2100
        if not year and (not small or _FACTOR.match(text, match.end())):
            found.append(number)
    return found


def _prose(cell) -> str:
    """Return the text of a cell that people read as prose."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "code":
        return "\n".join(_texts(source))
    return _SKIPPED.sub(" ", source).replace("{,}", ",")


def _texts(source: str) -> list[str]:
    """Return the texts in a code cell that are prose; of an f-string what stands between its values."""
    return [node.value for node in ast.walk(_parsed(source)) if isinstance(node, ast.Constant)
            and isinstance(node.value, str) and len(node.value.split()) >= WORDS_OF_PROSE]


def _of_code(source: str) -> set[str]:
    """Return the numbers of a code cell: of its magic, its literals and its short texts, not of its prose."""
    found = _numbers("\n".join(re.findall(r"(?m)^%.*", source)))
    for piece in ast.walk(_parsed(source)):
        if isinstance(piece, ast.Constant):
            if not isinstance(piece.value, str):
                found |= _numbers((ast.get_source_segment(source, piece) or "").replace("_", ""))
            elif len(piece.value.split()) < WORDS_OF_PROSE:
                found |= _numbers(piece.value)
    return found


def _parsed(source: str) -> ast.Module:
    return ast.parse(re.sub(r"(?m)^%.*", "", source))


def _printed(cell) -> str:
    """Return what a code cell printed and the numbers of its pictures, without their words."""
    said = []
    for output in cell["outputs"]:
        text = "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))
        said.append(text.partition("\n")[2] if "<img" in str(output.get("data", {}).get("text/html")) else text)
    return "\n".join(said)


def _numbers(text: str) -> set[str]:
    return {match.rstrip(",").replace(",", "") for match in re.findall(_NUMBER, text)}


def cell(kind, source, held=None, outputs=()):
    return {"cell_type": kind, "id": "a", "source": source, "metadata": {"held": held} if held else {},
            "outputs": list(outputs)}


def unheld_of(*cells):
    return unheld({"cells": cells}, known="The paper's vocabulary has 793,470 words.")


def printed(text):
    return {"output_type": "stream", "text": text}


def drawn(words):
    return {"output_type": "display_data", "data": {"text/plain": words, "text/html": "<img src='a.svg'>"}}


@pytest.mark.parametrize("path", in_order(FOLDER), ids=lambda path: path.stem)
def test_every_number_in_a_lessons_prose_is_held(path):
    assert unheld(json.loads(path.read_text())) == []


@pytest.mark.parametrize(("text", "found"), [
    ("below 0.03, or 12 %, or 24 times as much", ["0.03", "12", "24"]),
    ("1,024 ranks; $1{,}5$", ["1024"]),
    ("4 ranks on 16 machines, notebook 6, since 2009, x64", []),
    ("1.34 × faster, in 2019, of 25,467 words", ["1.34", "25467"]),
])
def test_what_must_be_held(text, found):
    assert claims(text) == found


def test_a_number_that_nothing_computes_is_seen():
    prose = cell("markdown", "It wins below 0.03, `--rate 0.5`, [there](0.7/x).")
    assert unheld_of(prose) == ["cell 0 (a): nothing computes 0.03"]
    assert unheld_of(prose, cell("code", "x", outputs=[printed("crossing 0.03\n")])) == []
    assert unheld_of(cell("markdown", prose["source"], {"0.03": "crossing"})) == []
    assert unheld_of(cell("markdown", "Of 793,470 words, 264 times as many.", {"264 times": "big / small"})) == []


def test_the_words_of_a_picture_are_prose_and_hold_nothing():
    code = cell("code", "plot('the server wins above 0.03, always')", outputs=[drawn("it wins above 0.03\n1 2")])
    assert unheld_of(code) == ["cell 0 (a): nothing computes 0.03"]
    assert unheld_of(cell("code", "plot(f'the server wins above {crossing:.3f}, always')")) == []
    assert unheld_of(code, cell("code", "%%ranks 4\nlimit = 0.03")) == []
    assert unheld_of(cell("code", "'this is 0 or 1'\nrows = 25_600"), cell("markdown", "Of 25,600 rows.")) == []


def test_a_phrase_that_is_held_and_not_said_is_seen():
    assert unheld_of(cell("markdown", "it is below\n0.012", {"below 0.012": "crossing"})) == []
    assert unheld_of(cell("markdown", "below 0.012", {"0.03": "crossing", "0.012": "crossing"})) == [
        "cell 0 (a): holds '0.03', and does not say it"]


@pytest.mark.parametrize(("held", "said"), [
    ({"0.012": "crossing"}, []),
    ({"1,234": "1233.6", "twice as fast": "crossing < 1"}, []),
    ({"0.03": "crossing"}, ["it says '0.03', but crossing gives 0.01"]),
    ({"twice as fast": "crossing > 1"}, ["it says 'twice as fast', but crossing > 1 gives False"]),
    ({"0.03": "missing"}, ["it says '0.03', but missing raises NameError: name 'missing' is not defined"]),
])
def test_what_the_kernel_does_not_find_is_said(held, said):
    assert complaints(held, {"crossing": 0.0119}) == said
