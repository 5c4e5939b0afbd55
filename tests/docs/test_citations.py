"""What code, messages, lessons and README cite is in the repository: the document, and in it the section or number.

A citation reads docs/design.md, I1 or docs/paper.md, Mechanisms or docs/bugs.md, 26: a heading, a bold term at the
beginning of a paragraph or a list item, or the number of a list item. A link goes to a file, or to a heading of it.
"""

import ast
import io
import json
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CITED = re.compile(r"docs/(?P<name>[a-z-]+)\.md(?:, (?P<place>[A-Z][\w-]*(?: [a-z][\w-]*)*|\d+(?:(?:,| and) \d+)*))?")
LINK = re.compile(r"\]\((?!https?://|#)(?P<file>[^)#\s]+)(?:#(?P<anchor>[^)\s]+))?\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
OUTSIDE = re.compile(r"\b(?:PAPER|DESIGN|SYSTEMS|CLUSTER|BUGS)(?:\.md\b|,? (?:I\d|\d|Rooms\b|Seams\b|Words\b|One step\b))")
HINT = re.compile("PAPER|DESIGN|SYSTEMS|CLUSTER|BUGS")
SOURCES = ("refimpl", "models", "kernels", "tests", "notebooks", "docs")
FOLLOWED = (".py", ".ipynb", ".md")


@cache
def prose(path: Path, hint: re.Pattern) -> list[tuple[int, str]]:
    """Return (line, text) of all that a file says to people: strings and comments of code, cells of a notebook.

    Nothing of code in which ``hint`` is nowhere: to take it apart takes most of the time.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return [(1, text)]
    if path.suffix == ".ipynb":
        return [(1, "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    if not hint.search(text):
        return []
    found = [(node.lineno, node.value) for node in ast.walk(ast.parse(text))
             if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    comments = (token for token in tokenize.generate_tokens(io.StringIO(text).readline)
                if token.type == tokenize.COMMENT)
    return found + [(token.start[0], token.string) for token in comments]


@cache
def places_in(document: Path) -> set[str]:
    """Return what can be cited: headings (up to a comma, a colon), bold terms that begin something, list numbers."""
    found = set()
    for line in document.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"#+ (.+)", line):
            found |= {heading[1].strip(), re.split(r"[,:(·]", heading[1])[0].strip()}
        if bold := re.match(r"(?:[-*] )?\*\*([^*]+)\*\*", line):
            found |= {bold[1].strip(), re.split(r"[ ·:.,]", bold[1].strip())[0]}
        if number := re.match(r"(\d+)\. ", line):
            found.add(number[1])
    return found


@cache
def anchors_in(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.replace("`", "").lower()).replace(" ", "-") for heading in headings}


def unresolved(path: Path, root: Path) -> list[str]:
    """Return a line for each citation and link of a file that leads nowhere."""
    lines, here = [], path.relative_to(root)
    for number, text in prose(path, CITED):
        for cited in CITED.finditer(" ".join(text.split())):
            document = root / "docs" / f"{cited['name']}.md"
            if not document.exists():
                lines.append(f"{here}:{number}: {cited[0]}: there is no {document.relative_to(root)}")
                continue
            place = cited["place"] or ""
            wanted = re.findall(r"\d+", place) if place[:1].isdigit() else [place] if place else []
            known = places_in(document)
            lines += [f"{here}:{number}: {cited[0]}: {document.name} has no {one!r}; it has {', '.join(sorted(known))}"
                      for one in wanted if one not in known and not any(one.startswith(f"{name} ") for name in known)]
        if path.suffix != ".py":
            links = LINK.finditer(CODE.sub("", text))
            lines += [f"{here}:{number}: {problem}" for link in links if (problem := _broken(link, path, root))]
    return lines


def _broken(link, path, root) -> str:
    """Return what is wrong with a link from a file, "" if nothing. /docs/... begins at the root of the repository."""
    file = link["file"]
    target = (root / file[1:] if file.startswith("/") else path.parent / file).resolve()
    if not target.exists():
        return f"{link['file']}: there is no such file"
    if link["anchor"] and target.suffix == ".md" and link["anchor"] not in anchors_in(target):
        return f"{link['file']}#{link['anchor']}: there is no such heading"
    return ""


def outside(path: Path, root: Path) -> list[str]:
    """Return a line for each mention of a document that is not in the repository."""
    return [f"{path.relative_to(root)}:{number}: {found[0]}: cite docs/design.md, docs/paper.md or docs/bugs.md, which "
            "are in the repository"
            for number, text in prose(path, HINT) for found in OUTSIDE.finditer(" ".join(text.split()))]


def files_below(root: Path) -> list[Path]:
    """Return all files that cite; not the tests of documents, which plant citations and links that lead nowhere."""
    return [root / "README.md", *(path for top in SOURCES for path in sorted((root / top).rglob("*"))
                                  if path.suffix in FOLLOWED and path.parent != Path(__file__).parent)]


def test_every_citation_leads_somewhere():
    assert [line for path in files_below(ROOT) for line in unresolved(path, ROOT)] == []


def test_nothing_cites_what_is_not_in_the_repository():
    assert [line for path in files_below(ROOT) for line in outside(path, ROOT)] == []


@pytest.fixture
def house(tmp_path):
    """Return a function that writes a file beside a docs/ of two documents, and returns its path."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "paper.md").write_text("# The paper\n\n## Sparsity-degree experiment: alpha\n\n- **Bytes**: many.\n")
    (tmp_path / "docs" / "bugs.md").write_text("# Bugs\n\n9. Nine.\n10. Ten.\n")

    def write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.mark.parametrize("cited, said", [
    ("docs/none.md, Bytes", "there is no docs/none.md"), ("docs/paper.md, Claims", "paper.md has no 'Claims'; it has By"),
    ("docs/bugs.md, 11", "bugs.md has no '11'"), ("docs/bugs.md, 9, 11", "bugs.md has no '11'")])
@pytest.mark.parametrize("code", ['"""{}"""', "raise ValueError('{}')", "x = 1  # {}", 'f"{{x}} ({})"'])
def test_a_citation_that_leads_nowhere_is_named(house, code, cited, said):
    path = house("code.py", f"\n{code.format(cited)}\n")
    assert len(found := unresolved(path, path.parent)) == 1
    assert found[0].startswith("code.py:2: ") and said in found[0]


@pytest.mark.parametrize("cited", ["docs/paper.md", "docs/paper.md, Bytes", "docs/paper.md, Sparsity-degree\nexperiment",
                                   "docs/paper.md, Bytes of a step", "docs/bugs.md, 9 and 10", "docs/bugs.md, 9, 10"])
def test_a_citation_that_leads_somewhere_is_not(house, cited):
    path = house("code.py", f'"""Says why ({cited})."""\n')
    assert unresolved(path, path.parent) == []


def test_links_of_documents_and_lessons_are_followed(house):
    text = "[a](docs/bugs.md), [b](docs/paper.md#the-paper), [c](docs/paper.md#claims), [d](nowhere.md), [e](https://x.y)"
    path = house("README.md", text)
    assert [line.partition(": ")[2] for line in unresolved(path, path.parent)] == [
        "docs/paper.md#claims: there is no such heading", "nowhere.md: there is no such file"]
    lesson = house("lesson.ipynb", json.dumps({"cells": [{"source": ["see docs/bugs.md,", " 12"]}]}))
    assert "bugs.md has no '12'" in unresolved(lesson, lesson.parent)[0]


@pytest.mark.parametrize("text", ["(DESIGN, I1)", "PAPER.md recalls it", "(BUGS 26)", "(BUGS 12, 13)", "see DESIGN, Rooms"])
def test_a_document_from_outside_is_named(house, text):
    path = house("code.py", f'"""One answer {text}."""\nPAPER = {{}}\n')
    assert len(outside(path, path.parent)) == 1
