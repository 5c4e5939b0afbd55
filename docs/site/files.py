"""Links between files of the repository: to the reference for a module, else to a page that shows the file."""

import posixpath
import shutil
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = {"docs": "docs/site/guides", "notebooks": "docs/site/lessons"}
"""Folders that have a page which leads to what is in them."""


def link(app, tree):
    """Point what Markdown links to at the page that shows it; what is not there stays, and Sphinx complains."""
    docname, packages = app.env.docname, app.config.autoapi_dirs
    for node in list(tree.findall(addnodes.pending_xref)):
        if node.get("reftype") != "myst" or node.get("refdomain"):
            continue
        path = posixpath.normpath(posixpath.join(posixpath.dirname(docname), node["reftarget"].partition("#")[0]))
        place = ROOT / path
        if path.startswith("..") or not place.exists():
            continue
        has_page = any(place.is_relative_to(package) for package in packages) and place.stem != "__main__"
        if has_page and (place.suffix == ".py" or any(place.glob("*.py"))):
            module = path.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
            found = addnodes.pending_xref("", *node.children, refdomain="py", reftype="mod", reftarget=module,
                                          refdoc=docname, refexplicit=True, refwarn=True)
        else:
            if path not in SECTIONS:
                app.env.metadata[docname].setdefault("files", []).append(path)
            address = app.builder.get_relative_uri(docname, SECTIONS.get(path, f"files/{path}"))
            found = nodes.reference("", "", *node.children, refuri=address, internal=True)
        node.replace_self(found)


def pages(app):
    """Yield a page for each file or folder that is linked to and is no page of its own."""
    for path in sorted({path for about in app.env.metadata.values() for path in about.get("files", ())}):
        place = ROOT / path
        names = sorted(inner.name for inner in place.iterdir()) if place.is_dir() else None
        text = "\n".join(names) if names is not None else place.read_text("utf-8")
        language = {".py": "python", ".json": "json", ".toml": "toml", ".yml": "yaml"}.get(place.suffix, "text")
        shown = app.builder.highlighter.highlight_block(text, language, linenos=False)
        yield f"files/{path}", {"title": path, "body": f"<h1>{path}</h1>{shown}"}, "page.html"


def notebooks(app, error):
    """Put the notebooks, to be downloaded, beside their pages, and their pictures, for which Sphinx does not look."""
    if not error:
        shutil.copytree(ROOT / "notebooks", Path(app.outdir, "notebooks"), dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("results", "instructor", ".*"))


def setup(app):
    app.connect("doctree-read", link)
    app.connect("html-collect-pages", pages)
    app.connect("build-finished", notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
