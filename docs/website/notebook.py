"""A stored notebook as a page: prose, code, and what the code printed and drew when it was stored."""

import json
import re
from html import escape
from pathlib import Path

from docs.website import code, prose
from docs.website.links import Links
from docs.website.pages import Page

INDEX = ("Notebooks", "notebooks/index.html")
LABELS = {
    "exercise": "your turn",
    "measured": "measured: another run's times differ",
    "raises-exception": "ends in an error, as it should",
}
"""What a tag of a cell tells the reader."""

_RANKS = re.compile(r"%%ranks (\d+)")


def notebook_page(path: Path, source: str, links: Links, beside: list[tuple[str, str]]) -> Page:
    """Return the page of the notebook at ``path``; ``source``: its place in the repository. Raises BrokenLink."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    taken, headings, parts = set(), [], []
    for cell in cells:
        text = _joined(cell["source"])
        if cell["cell_type"] == "markdown":
            shown = prose.render(text, source, links, math=True, taken=taken)
            headings += shown.headings
            parts.append(shown.html)
        elif cell["cell_type"] == "code" and (text.strip() or cell["outputs"]):
            parts.append(_code_cell(text, cell, source, links))
    stem = source.rpartition("/")[2].removesuffix(".ipynb")
    title = next((heading.text for heading in headings if heading.level == 1), stem)
    return Page(f"notebooks/{stem}.html", title, "\n".join(parts), "Notebooks", "notebook", _opening(cells), headings,
                [INDEX], beside, "Notebooks", template="notebook.html")


def title_of(path: Path) -> str:
    """Return a notebook's title: its first heading, or its file's name."""
    found = re.search(r"(?m)^# (.+)$", "\n".join(_joined(cell["source"]) for cell in _prose_cells(path)))
    return _plain(found[1]) if found else path.stem


def opening_of(path: Path) -> str:
    """Return the first paragraph of a notebook, as plain text."""
    return _opening(_prose_cells(path))


def _prose_cells(path: Path) -> list[dict]:
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "markdown"]


def _opening(cells: list[dict]) -> str:
    text = "\n\n".join(_joined(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    paragraphs = [part for part in re.split(r"\n\s*\n", text) if part.strip() and part[0] not in "#<!|-`$"]
    return _plain(" ".join(paragraphs[0].split())) if paragraphs else ""


def _plain(markdown: str) -> str:
    """Leave out the marks of Markdown: links, emphasis, code."""
    return re.sub(r"[*_`$]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown))


def _joined(text) -> str:
    return text if isinstance(text, str) else "".join(text)


def _code_cell(text: str, cell: dict, source: str, links: Links) -> str:
    labels = [LABELS[tag] for tag in cell["metadata"].get("tags", ()) if tag in LABELS]
    if ranks := _RANKS.match(text):
        labels.insert(0, f"on {ranks[1]} rank{'s' if ranks[1] != '1' else ''}, by MPI")
    heads = "".join(f'<span class="label">{escape(label)}</span>' for label in labels)
    heads = f'<div class="labels">{heads}</div>' if heads else ""
    outputs = "".join(_output(output, source, links) for output in cell["outputs"])
    shown = code.highlight(text, "python", lambda name: links.module(source, name))
    return f'<div class="cell">{heads}{shown}{f"<div class=outputs>{outputs}</div>" if outputs else ""}</div>'


def _output(output: dict, source: str, links: Links) -> str:
    if output["output_type"] == "stream":
        return code.plain(_joined(output["text"]), f"output {output['name']}")
    if output["output_type"] == "error":
        return code.plain("\n".join(output["traceback"]), "output error")
    data = {kind: _joined(value) for kind, value in output["data"].items() if not isinstance(value, dict)}
    if "text/html" in data:
        return f'<div class="shown">{prose.resolve_raw(data["text/html"], source, links)}</div>'
    if "image/svg+xml" in data:
        svg = data["image/svg+xml"]
        return f'<div class="shown">{svg[svg.index("<svg"):]}</div>'
    if "image/png" in data:
        alt = escape(data.get("text/plain", ""))
        return f'<div class="shown"><img src="data:image/png;base64,{data["image/png"].strip()}" alt="{alt}"></div>'
    if "text/markdown" in data:
        return f'<div class="shown">{prose.render(data["text/markdown"], source, links, math=True).html}</div>'
    return code.plain(data.get("text/plain", ""))
