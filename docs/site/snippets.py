"""What a search shows under each result: the words of guides and lessons, and what each name of the reference is.

A page of a folder cannot fetch other pages, but it can load a script. So all these texts are in one script, which
search.js loads at the first result.
"""

import json
import re
from pathlib import Path

from docutils import nodes

import public

LEFT_OUT = nodes.section, nodes.table, nodes.title, nodes.literal_block, nodes.raw, nodes.comment


def words(node) -> str:
    """Return the text in a node: no code, no titles, and neither the sections nor the tables in it."""
    if isinstance(node, nodes.Text):
        return node.astext()
    text = "".join(words(child) for child in node.children if not isinstance(child, LEFT_OUT))
    if isinstance(node, nodes.math):
        return re.sub(r"\\(\w+)|[\\{}]", r"\1", text)
    after = "" if isinstance(node, nodes.Inline) else " · " if isinstance(node, nodes.entry) else " "
    return ("…" if isinstance(node, nodes.math_block) else text) + after


def parts(tree) -> list[tuple[str, str, str]]:
    """Return (anchor, title, text) of each section of a page, in order; then of its tables: these have text only."""
    found = [(part["ids"][0], part.next_node(nodes.title).astext(), part) for part in tree.findall(nodes.section)]
    found += [("", "", part) for part in tree.findall(nodes.table)]
    return [(anchor, title, " ".join(words(part).split())) for anchor, title, part in found]


def names(env) -> dict[str, list[tuple[str, str, str]]]:
    """Return page -> (anchor, name, first line of the docstring) of what the reference has there."""
    known, found = env.autoapi_all_objects, {}
    for name, entry in env.domains["py"].objects.items():
        about = known[name] if name in known else public.origin(known, name)
        first = re.sub(r":[\w:]+:`([^<`]+?)( <[^`]*>)?`|`", r"\1", about.docstring.strip().partition("\n")[0])
        found.setdefault(entry.docname, []).append((entry.node_id, name, first))
    return found


def write(app, error):
    """Write all texts into one script."""
    if not error:
        pages = {page: parts(app.env.get_doctree(page)) for page in app.env.found_docs
                 if not page.startswith("reference/")}
        text = json.dumps(pages | names(app.env), ensure_ascii=False, separators=(",", ":"))
        Path(app.outdir, "_static", "snippets.js").write_text(f"const SNIPPETS = {text};\n", "utf-8")


def setup(app):
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
