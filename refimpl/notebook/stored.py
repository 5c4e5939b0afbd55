"""The format of stored notebooks: text, with pictures in separate files, so that changes are readable in a diff.

There are no execution counts and no metadata of a machine. A picture is a file, pictures/NOTEBOOK-CELL.svg, to which
the cell's output refers; below it is the picture's text alternative.
"""

import re
from html import escape
from pathlib import Path

import nbformat

from refimpl.notebook.sliders import WIDGET

PICTURES = "pictures"
HELD = "held"
"""Metadata of a cell: see ``refimpl.notebook.held``."""
MEASURED = "measured"
"""Tag of a cell whose output holds times: stored, but another run's may differ."""
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
          "language_info": {"name": "python"}}


def tags(cell) -> list[str]:
    """Return a cell's tags. Local."""
    return cell.metadata.get("tags", [])


def normalised(notebook, stem: str) -> tuple[nbformat.NotebookNode, dict[str, str]]:
    """Return (the notebook in its stored format, {file name -> SVG} of its pictures). Local.

    stem: the notebook's name without its suffix.
    """
    stored, pictures = nbformat.from_dict(notebook), {}
    stored.metadata = nbformat.from_dict(KERNEL)
    stored.nbformat, stored.nbformat_minor = 4, 5
    for cell in stored.cells:
        kept = {name: cell.metadata[name] for name in ("tags", HELD) if cell.metadata.get(name)}
        cell.metadata = nbformat.from_dict(kept)
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [_output(output, f"{stem}-{cell.id}", pictures) for output in cell.outputs]
    return stored, pictures


def _output(output, name: str, pictures: dict):
    if output.output_type == "stream":
        return nbformat.v4.new_output("stream", name=output.name, text=_plain(output.text))
    if output.output_type == "error":  # line numbers of other packages change with their versions
        said = _plain(output.evalue)
        return nbformat.v4.new_output("error", ename=output.ename, evalue=said, traceback=[f"{output.ename}: {said}"])
    data = {kind: value for kind, value in output.data.items() if kind not in ("image/svg+xml", WIDGET)}
    svg = output.data.get("image/svg+xml")
    if svg:
        file = f"{name}.svg" if f"{name}.svg" not in pictures else f"{name}-{len(pictures) + 1}.svg"
        pictures[file] = svg
        data["text/html"] = _picture(file, data.get("text/plain", ""))
    return nbformat.v4.new_output("display_data" if svg else output.output_type, data=data)


def _plain(text: str) -> str:
    """Return a text without terminal colours."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)


def _picture(file: str, words: str) -> str:
    alt, _, numbers = words.partition("\n")
    shown = f'<img src="{PICTURES}/{file}" alt="{escape(alt)}" />'
    if not numbers:
        return shown
    return f"{shown}\n<details><summary>The picture in numbers</summary>\n\n<pre>{escape(numbers)}</pre>\n\n</details>"


def write(notebook, pictures: dict[str, str], path: Path) -> None:
    """Write a normalised notebook and its pictures, and remove pictures that it no longer has. Local."""
    folder = path.parent / PICTURES
    folder.mkdir(exist_ok=True)
    for old in folder.glob(f"{path.stem}-*.svg"):
        if old.name not in pictures:
            old.unlink()
    for name, svg in pictures.items():
        (folder / name).write_text(svg, encoding="utf-8")
    nbformat.write(notebook, path)
