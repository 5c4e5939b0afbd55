"""A docstring as HTML. The project's docstrings are plain text with few habits, and these are what is read here.

    blank line              a new paragraph
    indented, after one     a drawing, table or equation: kept as it is
    name: meaning           explains a parameter or field of that name; two spaces part a second one on the same line
    Raises Error …          on a line of its own ends the explanations
    - item                  a list
    ``name``                code, and a link where such a name exists
"""

import re
from collections.abc import Callable, Collection
from html import escape

_EXPLAINED = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*):\s+(.*)")
_CODE = re.compile(r"``([^`]+)``|`([^`]+)`")


def render(text: str, names: Collection[str] = (), link: Callable[[str], str | None] = lambda name: None) -> str:
    """Return a docstring as HTML.

    names: what a "name: meaning" line may explain; with others such a line is prose.
    link(name): where the documentation of a name is, or None.
    """
    return "\n".join(_block(lines, names, link) for lines in _blocks(text))


def one_line(text: str, link: Callable[[str], str | None] = lambda name: None) -> str:
    """Return one sentence as HTML."""
    return _inline(text, link)


def road(text: str) -> str:
    """Return who calls it, as the docstring says: "Local", "Collective", or "" where it says neither."""
    said = re.search(r"\b(Local|Collective)\b", text)
    return said[1] if said else ""


def _blocks(text: str) -> list[list[str]]:
    """Return paragraphs as lists of lines; what is indented after a blank line is one block to its end."""
    blocks, open_block = [], False
    for line in text.splitlines():
        drawn = bool(blocks) and _is_drawn(blocks[-1])
        if not line.strip():
            open_block = False
        elif open_block or (drawn and _is_drawn([line])):
            blocks[-1] += [] if open_block else [""]
            blocks[-1].append(line)
            open_block = True
        else:
            blocks.append([line])
            open_block = True
    return blocks


def _is_drawn(lines: list[str]) -> bool:
    return lines[0].startswith("   ")


def _block(lines: list[str], names, link) -> str:
    if _is_drawn(lines):
        margin = min(len(line) - len(line.lstrip()) for line in lines if line)
        body = "\n".join(line[margin:] for line in lines)
        return f'<pre class="drawing" tabindex="0">{escape(body, quote=False)}</pre>'
    if lines[0].startswith("- "):
        items = re.split(r"(?m)^- ", "\n".join(lines))[1:]
        return "<ul>" + "".join(f"<li>{_inline(item, link)}</li>" for item in items) + "</ul>"
    prose, explained, raised = _explanations(lines, names)
    html = f"<p>{_inline(' '.join(prose), link)}</p>" if prose else ""
    if explained:
        rows = "".join(f"<dt>{', '.join(f'<code>{name}</code>' for name in who.split(', '))}</dt>"
                       f"<dd>{_inline(' '.join(what), link)}</dd>" for who, what in explained)
        html += f"<dl>{rows}</dl>"
    return html + (f"<p>{_inline(' '.join(raised), link)}</p>" if raised else "")


def _explanations(lines: list[str], names) -> tuple[list[str], list[tuple[str, list[str]]], list[str]]:
    """Split a paragraph into prose, what follows it as (names, lines of their meaning), and what is raised then."""
    prose, explained, raised = [], [], []
    for line in lines:
        if raised or (explained and line.startswith("Raises ")):
            raised.append(line)
            continue
        for part in _parted(line, names):
            match = _explained(part, names)
            if match:
                explained.append((match[1], [match[2]]))
            else:
                (explained[-1][1] if explained else prose).append(part.strip())
    return prose, explained, raised


def _parted(line: str, names) -> list[str]:
    """Split a line where two spaces part one explained name from the next."""
    parts = []
    for part in re.split(r" {2,}(?=\S)", line.rstrip()):
        if parts and not _explained(part, names):
            parts[-1] += f" {part}"
        else:
            parts.append(part)
    return parts


def _explained(text: str, names):
    match = _EXPLAINED.match(text)
    return match if match and all(name.lstrip("*") in names for name in match[1].split(", ")) else None


def _inline(text: str, link) -> str:
    def code(match):
        name = match[1] or match[2]
        where = link(name)
        shown = f"<code>{escape(name, quote=False)}</code>"
        return f'<a href="{where}">{shown}</a>' if where else shown

    parts, at = [], 0
    for match in _CODE.finditer(text):
        parts += [escape(text[at:match.start()], quote=False), code(match)]
        at = match.end()
    return "".join(parts) + escape(text[at:], quote=False)
