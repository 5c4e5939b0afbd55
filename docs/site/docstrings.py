"""Docstrings as reStructuredText: ours are plain prose with ``code``, "- " lists, "name: meaning" and drawings."""

import re

from sphinx.util.nodes import make_refnode

NAMES = r"[a-z_]\w*(?:, [a-z_]\w*)*"
EXPLAINED = re.compile(rf"(?:\A|(?<=[.:;])\n|(?<=[.;])  )(?={NAMES}: )")
"""Where a paragraph goes on to say what a parameter or field means."""


def prose(text: str) -> str:
    """Return text in which only code means anything to reStructuredText; a name in code becomes a link if known."""
    parts = re.split(r"(``.+?``)", text, flags=re.DOTALL)
    parts[::2] = [re.sub(r"([\\*_`|])", r"\\\1", part) for part in parts[::2]]
    parts[2::2] = [re.sub(r"^(?=\w)", r"\\ ", part) for part in parts[2::2]]  # code may be followed by a plural's s
    parts[1::2] = [re.sub(r"^``([A-Za-z_][\w.]*)(\(\))?``$", r":py:obj:`\1\2 <\1>`", part) for part in parts[1::2]]
    return "".join(parts)


def paragraph(text: str, is_first: bool) -> str:
    """Return one paragraph, the names it explains (the first: after a sentence) as a list of terms."""
    if text.startswith("- "):
        return prose(text)
    shown = []
    for part in EXPLAINED.split(text):
        if (names := re.match(rf"({NAMES}): ", part)) and not (is_first and text.startswith(part)):
            meaning = " ".join(prose(part[names.end():]).split())
            shown.append(", ".join(f"``{name}``" for name in names[1].split(", ")) + f"\n    {meaning}")
        elif part:
            shown.append(prose(part) + "\n")
    return "\n".join(shown).strip()


def convert(text: str) -> str:
    """Return a docstring, drawings and tables (indented, or in columns) kept as they are."""
    shown, drawing = [], False
    for part in re.split(r"\n\s*?\n", text.strip("\n")):
        was_drawing, drawing = drawing, part.startswith("    ") or bool(re.search(r"\S {3,}\S", part))
        if drawing:
            shown += [] if was_drawing else ["::"]
            shown.append(part if part.startswith("    ") else re.sub("^", "    ", part, flags=re.MULTILINE))
        else:
            shown.append(paragraph(part, is_first=not shown))
    return "\n\n".join(shown)


def near(app, env, node, content):
    """Link a name in code that is known in a package around the one whose docstring it stands in."""
    package, objects = node.get("py:module") or "", env.domains.python_domain.objects
    while node.get("reftype") == "obj" and package:
        package = package.rpartition(".")[0]
        if (name := f"{package}.{node['reftarget']}".lstrip(".")) in objects:
            found = objects[name]
            return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, content, name)


def setup(app):
    app.connect("autodoc-process-docstring", lambda app, kind, name, it, options, lines: lines.__setitem__(
        slice(None), [*convert("\n".join(lines)).split("\n"), ""]))
    app.connect("missing-reference", near)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
