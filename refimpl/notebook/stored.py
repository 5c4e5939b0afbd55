"""The form in which a notebook is stored, so that a change reads well in a diff: text, with its pictures beside it.

No execution counts, no metadata of a machine; one text for each stream; a picture is a file of its own,
pictures/NOTEBOOK-CELL.svg, to which the cell's output refers, with the picture in words below it.
"""

import re
from html import escape
from pathlib import Path

import nbformat

from refimpl.notebook.sliders import WIDGET
from refimpl.notebook.numbers import HELD

PICTURES = "pictures"
MEASURED = "measured"
"""Tag of a cell whose output holds times: stored, but another run's may differ."""
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
          "language_info": {"name": "python"}}
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def tags(cell) -> list[str]:
    """Return a cell's tags. Local."""
    return cell.metadata.get("tags", [])


def normalised(notebook, stem: str) -> tuple[nbformat.NotebookNode, dict[str, str]]:
    """Return (the notebook as it is stored, {file name -> SVG} of its pictures). Local.

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
            cell.outputs = [_output(output, f"{stem}-{cell.id}", pictures) for output in _joined(cell.outputs)]
    return stored, pictures


def _joined(outputs) -> list:
    """Return the outputs with neighbouring pieces of one stream as one."""
    joined = []
    for output in outputs:
        if output.output_type == "stream" and joined and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        else:
            joined.append(nbformat.from_dict(output))
    return joined


def _output(output, name: str, pictures: dict):
    if output.output_type == "stream":
        return nbformat.v4.new_output("stream", name=output.name, text=_ANSI.sub("", output.text))
    if output.output_type == "error":  # line numbers of other people's code change with its version
        said = _ANSI.sub("", output.evalue)
        return nbformat.v4.new_output("error", ename=output.ename, evalue=said, traceback=[f"{output.ename}: {said}"])
    data = {kind: value for kind, value in output.data.items() if kind not in ("image/svg+xml", WIDGET)}
    svg = output.data.get("image/svg+xml")
    if svg:
        file = f"{name}.svg" if f"{name}.svg" not in pictures else f"{name}-{len(pictures) + 1}.svg"
        pictures[file] = svg
        data["text/html"] = _picture(file, data.get("text/plain", ""))
    return nbformat.v4.new_output("display_data" if svg else output.output_type, data=data)


def _picture(file: str, words: str) -> str:
    alt, _, numbers = words.partition("\n")
    shown = f'<img src="{PICTURES}/{file}" alt="{escape(alt)}" />'
    if not numbers:
        return shown
    return f"{shown}\n<details><summary>The picture in numbers</summary>\n\n<pre>{escape(numbers)}</pre>\n\n</details>"


def differences(stored, executed) -> list[str]:
    """Return one line for each cell whose stored output is not what executing it gave; both normalised. Local.

    Of pictures the words and numbers are compared: another version of matplotlib draws the same with other bytes.
    """
    problems = []
    if len(stored.cells) != len(executed.cells):
        return [f"{len(executed.cells)} cells, {len(stored.cells)} stored"]
    for number, (old, new) in enumerate(zip(stored.cells, executed.cells)):
        if new.cell_type != "code" or MEASURED in tags(new):
            continue
        before, after = said(old), said(new)
        if before != after:
            problems.append(f"cell {number} ({new.id}): stale output\n" + _first_difference(before, after))
    return problems


def said(cell) -> list[str]:
    """Return what the outputs of a cell say, in lines. Local."""
    lines = []
    for output in cell.get("outputs", ()):
        if output.output_type == "stream":
            text = output.text
        elif output.output_type == "error":
            text = f"{output.ename}: {output.evalue}"
        else:
            text = output.data.get("text/plain") or next(iter(output.data.values()), "")
        lines += [line.rstrip() for line in "".join(text).splitlines()]
    return lines


def _first_difference(before: list[str], after: list[str]) -> str:
    number = next((i for i, pair in enumerate(zip(before, after)) if pair[0] != pair[1]), min(len(before), len(after)))
    of = [lines[number] if number < len(lines) else "(nothing more)" for lines in (before, after)]
    return f"    stored:   {of[0]}\n    executed: {of[1]}"


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


def missing_pictures(notebook, path: Path) -> list[str]:
    """Return one line for each picture that a stored notebook refers to and that is not there. Local."""
    wanted = [name for cell in notebook.cells for output in cell.get("outputs", ())
              for name in re.findall(r'<img src="([^"]+)"', "".join(output.get("data", {}).get("text/html", "")))]
    return [f"{name}: missing" for name in wanted if not (path.parent / name).exists()]
