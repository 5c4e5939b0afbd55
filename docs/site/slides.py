"""Slides of the lessons, made of the stored notebooks: what a class looks at is on them, the rest is what one says.

On a slide: headings, questions, lists, formulas, tables, pictures and short outputs. In the speaker's notes (key S):
all other prose. A **Predict:** ends a slide, so that nobody reads the answer below the question. The next slide
repeats the question in small letters. A slide without a heading of its own repeats the last heading.
"""

import importlib.util
import json
import re
import shutil
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template

from contents import lessons, without_links
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 18
"""A program or an output of more lines is for the notebook, not for a slide."""
ROOM, WIDTH = 16, 75
"""Lines of text that a slide has room for, and characters of one."""
LARGEST, SMALLEST, COLUMNS = 0.8, 0.5, 84
"""Sizes of code beside text, and the characters of a line that has the largest. What is too long even for the smallest
size is wrapped."""
TEMPLATE = Template((ROOT / "docs" / "site" / "templates" / "slides.html").read_text("utf-8"))
_SHOWN = re.compile(r"#|\$\$|[-*] |\d+\. |\||\*\*Predict:\*\*")
_QUESTION = re.compile(r"\*\*[^*]+[?.:]\*\*")


@dataclass
class Slide:
    """shown: pieces of HTML.  notes: what the speaker says, in HTML.  room: lines that are left.

    title: the last heading, HTML.  asked: the question that this slide answers, HTML.
    """

    shown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    room: float = ROOM
    title: str = ""
    asked: str = ""


def following(section: list[Slide], asked: str = "", lines: float = 0) -> Slide:
    """Return a slide below the same heading as the last one of a section. lines: of the question, in small letters."""
    return Slide(title=section[-1].title, asked=asked, room=ROOM - 1.5 - lines)


def show(section: list[Slide], piece: str, lines: float):
    """Put a piece of HTML that takes so many lines on the last slide, or on a new one if it has no room."""
    if section[-1].shown and lines > section[-1].room:
        section.append(following(section))
    section[-1].shown.append(piece)
    section[-1].room -= lines


def markdown() -> MarkdownIt:
    """Return what makes HTML of a lesson's Markdown; formulas are left to MathJax."""
    made = MarkdownIt("commonmark", {"html": True}).enable("table")
    return made.use(dollarmath_plugin, double_inline=True, renderer=formula)


def formula(text: str, options: dict) -> str:
    opening, closing = (r"\[", r"\]") if options.get("display_mode") else (r"\(", r"\)")
    return f"{opening}{escape(text)}{closing}"


def slides(notebook: dict) -> list[list[Slide]]:
    """Return a notebook's slides: sections, each of slides below each other."""
    sections, render = [[Slide()]], markdown().render
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            source = re.sub(r"<details>.*?</details>", "", "".join(cell["source"]), flags=re.DOTALL)
            paragraphs = [part for part in re.split(r"\n\s*\n", without_links(source).strip()) if part]
            for before, paragraph in zip(["", *paragraphs], paragraphs):
                _put(sections, paragraph, render, before)
        else:
            _put_cell(sections[-1], cell)
    return [[slide for slide in section if slide.shown] for section in sections if any(s.shown for s in section)]


def _put(sections: list[list[Slide]], paragraph: str, render, before: str = ""):
    """Put a paragraph on the slide at the end, or into its notes; a heading begins a slide. before: the last paragraph.

    A table stands below the sentence that announces it.
    """
    exercise = any("Exercise" in piece for piece in sections[-1][-1].shown)
    if paragraph.startswith("## "):
        sections.append([Slide()])
    elif paragraph.startswith("### "):
        sections[-1].append(Slide(title=sections[-1][0].title))
    section = sections[-1]
    if paragraph.startswith("#") and not paragraph.startswith("### Exercise"):  # what follows one is not part of it
        section[-1].title = re.sub(r"^<p>|</p>$", "", render(paragraph.lstrip("# ").partition("\n")[0]).strip())
    announced = before.startswith("After ") or paragraph.startswith("|") and before.endswith(":")
    if paragraph.startswith(("|", "- ")) and announced and not _SHOWN.match(before):
        paragraph = re.split(r"(?<=[.?!)])\s+", before)[-1] + "\n\n" + paragraph
    title = len(sections) == 1 and not section[-1].notes and paragraph.startswith(("# ", "*"))
    if title or exercise or _SHOWN.match(paragraph) or "\n\n" in paragraph:
        whole = not re.match(r"- |\d+\. ", paragraph) or _lines(paragraph) < ROOM - 3  # else item by item
        for piece in [paragraph] if whole else re.split(r"\n(?=- |\d+\. )", paragraph):
            show(section, render(piece), _lines(piece) - (not whole))
    else:
        if question := _QUESTION.match(paragraph):
            show(section, render(question[0]), 2)
        section[-1].notes.append(render(paragraph))
    if paragraph.startswith("**Predict:**"):
        section.append(following(section, render(paragraph.removeprefix("**Predict:** ")), 0.75 * _lines(paragraph)))


def _lines(paragraph: str) -> float:
    """Return how many lines of a slide a paragraph takes, about."""
    if paragraph.startswith("$$"):
        return 4
    items = re.split(r"\n(?=[-*|\d])", paragraph)
    return 1 + sum(1.1 * -(-len(item) // WIDTH) for item in items)


def _put_cell(section: list[Slide], cell: dict):
    """Put a short program that runs on ranks, and what a cell gave, on slides."""
    if "exercise" in cell["metadata"].get("tags", []):
        return
    source = "".join(cell["source"])
    if source.startswith("%%ranks") and source.count("\n") < MOST_LINES:
        _show_text(section, source)
    for output in cell["outputs"]:
        data = output.get("data", {})
        picture = re.search(r"<img[^>]+>", "".join(data.get("text/html", "")))
        text = "".join(output.get("text") or data.get("text/plain", ""))
        if picture:
            show(section, picture[0].replace('src="', 'src="../notebooks/'), ROOM - 3)  # a heading fits above
        elif "text/markdown" in data:  # a whole file scrolls, from its first class or function on
            first = re.search(r"^(class|def|@)", text, re.MULTILINE)
            _show_text(section, text[first.start() if first else 0:])
        elif text.count("\n") < MOST_LINES:
            _show_text(section, text)


def _show_text(section: list[Slide], text: str):
    """Put a program or its output on a slide, in letters as large as its longest line allows."""
    size = min(LARGEST, max(SMALLEST, LARGEST * COLUMNS / max(map(len, text.splitlines()), default=1)))
    lines = min(ROOM, 1.75 + 1.2 * size * text.count("\n"))
    show(section, f'<pre style="font-size: {size:.2f}em"><code>{escape(text)}</code></pre>', lines)


def page(notebook: dict) -> str:
    """Return a lesson's slides as a page, for a folder beside reveal.js and MathJax."""
    def one(slide):
        notes = f"<aside class=\"notes\">{''.join(slide.notes)}</aside>" if slide.notes else ""
        asked = f'<div class="asked">{slide.asked}</div>' if slide.asked else ""
        head = "" if slide.shown[0].startswith("<h") else f"<h3>{slide.title}</h3>{asked}"
        return f"<section>{head}{''.join(slide.shown)}{notes}</section>"

    title = "".join(notebook["cells"][0]["source"]).partition("\n")[0].lstrip("# ")
    body = "\n".join(f"<section>{''.join(map(one, section))}</section>" for section in slides(notebook))
    return TEMPLATE.substitute(title=escape(title), body=body)


def write(app, error):
    """Write slides/LESSON.html for each lesson, with reveal.js beside them."""
    if error:
        return
    folder = Path(app.outdir, "slides")
    reveal = Path(importlib.util.find_spec("sphinx_revealjs").origin).parent / "_static" / "revealjs"
    for part in ("dist/reveal.js", "dist/reveal.css", "dist/theme/white.css", "dist/theme/fonts/source-sans-pro",
                 "plugin/notes"):
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (reveal / part).is_dir() else shutil.copy)(reveal / part, folder / part)
    for path in lessons():
        text = page(json.loads(path.read_text("utf-8")))
        (folder / f"{path.stem}.html").write_text(text, "utf-8")


def setup(app):
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
