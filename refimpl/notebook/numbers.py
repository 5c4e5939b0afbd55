"""Numbers in prose: each is printed by the lesson's cells, or held to an expression that the lesson's kernel evaluates.

A cell's metadata "held" maps what the cell says to the expression that must give it, after all cells were executed:

    {"held": {"0.012": "crossing", "twice as fast": "times['ring'] > 1.9 * times['tree']"}}

A number must be the expression's value, rounded to as many places as are written; any other phrase must be true.
"""

import ast
import re
from pathlib import Path

HELD = "held"
PAPER = Path(__file__).parents[2] / "docs" / "paper.md"
WORDS_OF_PROSE = 4
"""A text of so many words in a code cell is prose: the words of a picture."""
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_SKIPPED = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|<[^>]+>", re.DOTALL)
_FACTOR = re.compile(r"\s*(?:%|×|\\times\b(?!\s*\d)|times\b)")


def unheld(notebook: dict, known: str | None = None) -> list[str]:
    """Return one line for each number in a notebook's prose that nothing holds. Local; executes nothing.

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
        for phrase in cell["metadata"].get(HELD, {}):
            words = " ".join(phrase.split())
            if words not in said:
                found.append(f"cell {place} ({cell.get('id')}): holds {words!r}, and does not say it")
            said = said.replace(words, " ")
        found += [f"cell {place} ({cell.get('id')}): nothing computes {number}"
                  for number in claims(said) if number not in there]
    return found


def claims(text: str) -> list[str]:
    """Return the numbers of a text that must be held, without commas, in their order. Local."""
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


def complaints(held: dict[str, str], names: dict) -> list[str]:
    """Return one line for each phrase that its expression does not give. names: the kernel's variables. Local."""
    found = []
    for phrase, expression in held.items():
        try:
            value = eval(expression, names)
            number = re.fullmatch(_NUMBER, phrase)
            places = len(phrase.partition(".")[2])
            given = f"{value:.{places}f}" if number else bool(value)
            if given != (phrase.replace(",", "") if number else True):
                found.append(f"it says {phrase!r}, but {expression} gives {given}")
        except Exception as problem:
            found.append(f"it says {phrase!r}, but {expression} raises {type(problem).__name__}: {problem}")
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
