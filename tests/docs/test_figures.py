"""Every figure of the first pages is held: by the pages of measurements and of the paper, by code beside it, or here.

A figure is a decimal, a number of 100 or more, or one with % or × behind it. All figures of a sentence, or of a row of a
table, must stand in one section of docs/measured.md or docs/paper.md, or in one block of code of the same page; but for
those of the phrases which ``computed`` writes by what the product says.
"""

import inspect
import re
import tomllib
from pathlib import Path

import pytest

from mutants.checkers import CHECKERS
from mutants.planted import MUTANTS
from mutants.run import run_mutants

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/index.md", "docs/training.md", "docs/plan.md", "docs/without-barriers.md",
         "docs/experiments.md", "docs/own-model.md", "docs/survival.md")
HOLDERS = ("docs/measured.md", "docs/paper.md")
NUMBER = r"(?<![\w.,/'-])\d[\d,]*(?:\.\d+)?"
FIGURE = re.compile(rf"({NUMBER})(?!\w)((?: to \d[\d.]*)? ?[%×])?")
FENCED, ASIDE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE), re.compile(r"`[^`\n]*`|\]\([^)]*\)|<!--.*?-->")


def computed() -> dict[str, list[str]]:
    """Return page -> phrases with figures, as they must stand there."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = {room: sum(len(path.read_text("utf-8").splitlines()) for path in (ROOT / room).rglob("*.py"))
             for room in ("refimpl/plain", "refimpl", "models", "kernels")}
    plain = -(-lines.pop("refimpl/plain") // 500) * 500
    bugs, correct = len(MUTANTS) + len(CHECKERS), inspect.signature(run_mutants).parameters["configurations"].default
    return {"README.md": [f"Python {about['requires-python'].replace('>=', '≥ ')}", f"all {bugs} planted bugs",
                          f"{correct} correct implementations", f"fewer than {plain:,} lines",
                          f"more than {sum(lines.values()) // 10_000 * 10_000:,}, and"]}


def figures(text: str) -> set[str]:
    """Return the figures of a text, as they are written but for the commas."""
    found = ((number.rstrip(",").replace(",", ""), unit) for number, unit in FIGURE.findall(text))
    return {number for number, unit in found if unit or "." in number or float(number) >= 100}


def numbers(text: str) -> set[str]:
    """Return all numbers of a text: what a figure can be held by."""
    return {number.rstrip(",").replace(",", "") for number in re.findall(NUMBER, text)}


def sentences(text: str) -> list[str]:
    """Return the sentences of a page and the rows of its tables, without code."""
    plain = ASIDE.sub(" ", FENCED.sub("\n\n", text))
    parts = [part for block in plain.split("\n\n")
             for part in (block.splitlines() if block.lstrip().startswith("|") else [" ".join(block.split())])]
    return [sentence for part in parts for sentence in re.split(r"(?<=[.:;?])\s+(?=[A-Z(\[*])", part)]


def unheld(page: str, text: str, holders: list[str], phrases=()) -> list[str]:
    """Return a line for each phrase that is not there, and each sentence whose figures stand together nowhere."""
    lines = [f"{page}: {phrase!r} is what is so, and is not there" for phrase in phrases if phrase not in text]
    known = [numbers(holder) for holder in [*holders, *FENCED.findall(text)]]
    for phrase in phrases:
        text = text.replace(phrase, "")
    for sentence in sentences(text):
        if (found := figures(sentence)) and not any(found <= section for section in known):
            lines.append(f"{page}: {', '.join(sorted(found))}: no section has all of them: {sentence.strip()}")
    return lines


def sections() -> list[str]:
    """Return the sections that hold figures: all but the summary, which repeats the others."""
    parts = [part for name in HOLDERS for part in re.split("^## ", (ROOT / name).read_text("utf-8"), flags=re.M)]
    return [part for part in parts if not part.startswith("Summary\n")]


def unheld_rows(page: str) -> list[str]:
    """Return a line for each row of the summary of which a figure reached stands nowhere in the section it links to."""
    places = {}
    for part in re.split("^(?=##+ )", page, flags=re.M)[1:]:
        depth, title, text = re.match(r"(#+) ([^\n]*)(.*)", part, re.DOTALL).groups()
        above = title if depth == "##" else above
        for name in {title, above}:
            anchor = re.sub(r"[^\w -]", "", name.lower()).replace(" ", "-")
            places[anchor] = places.get(anchor, "") + text
    rows = re.findall(r"^\|.*?\]\(#([\w-]+)\).*?\|(.*)\|(.*)\|(.*)\|$", page, flags=re.M)
    return [f"Summary: {', '.join(sorted(lost))}: not in #{anchor}" for anchor, _, reached, _ in rows
            if (lost := figures(reached) - numbers(places.get(anchor, "")))]


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_is_held(page):
    assert unheld(page, (ROOT / page).read_text("utf-8"), sections(), computed().get(page, ())) == []


def test_the_summary_repeats_its_sections():
    page = (ROOT / "docs" / "measured.md").read_text("utf-8")
    assert unheld_rows(page) == []
    assert unheld_rows("| [a](#one-two) b | 3 | 4.5 to 250 | no |\n## One, two\n4.5\n### Three\n9\n") == [
        "Summary: 250: not in #one-two"]
    assert unheld_rows("| [a](#one) | 3 | 4.5 % | no |\n## One\n1\n### Two\n4.5\n") == []


@pytest.mark.parametrize(("text", "missing"), [
    ("A step is 3.7 times as fast.", "3.7"), ("It saves 44 % of memory.", "44"), ("On 5 to 6 × the words.", "5"),
    ("| LM | 5,701 |", "5701"), ("Hybrid has 2.6, allreduce 9.9.", "2.6, 9.9"), ("By `3.7` as an option, 3.7.", "3.7")])
def test_a_figure_that_nothing_holds_is_seen(text, missing):
    (line,) = unheld("page.md", text, ["Measured 2.6 and 2.8.", "Measured 9.9, once."])
    assert line.startswith(f"page.md: {missing}: ")


@pytest.mark.parametrize("text", [
    "From 2.6 to 2.8 times; 4 ranks.", "Is 9.9.", "```\nloss 3.7\n```\n\nIt ends at 3.7.",
    "sha256, float32, '19", "[one](page.md#3.7)", "Bugs: all 77 of 123."])
def test_a_figure_that_something_holds_is_not(text):
    assert unheld("page.md", text, ["Measured 2.6 and 2.8.", "Measured 9.9, once."],
                  ["all 77 of 123"] if "77" in text else []) == []


def test_what_is_computed_must_be_said():
    assert unheld("page.md", "All 76 of them.", [], ["All 77"]) == ["page.md: 'All 77' is what is so, and is not there"]
