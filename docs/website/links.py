"""From a file of the repository to its page on the site, and from one page to another."""

import posixpath
from pathlib import Path

PACKAGES = ("refimpl", "models", "kernels", "tests")
"""Top-level folders whose Python files have a page each in the reference."""

PICTURES = (".svg", ".png", ".jpg", ".gif", ".webp")


class BrokenLink(Exception):
    """A document of the repository links to what does not exist."""


def page_url(path: str, is_directory: bool = False) -> str:
    """Return the address, relative to the site's root, of the page for a file or folder of the repository."""
    stem, suffix = posixpath.splitext(path)
    if path == "README.md":
        return "index.html"
    if path in ("docs", "notebooks"):
        return f"{path}/index.html"
    if path.split("/")[0] in PACKAGES and (suffix == ".py" or is_directory):
        return f"reference/{dotted(path)}.html"
    if suffix in (".md", ".ipynb"):
        return f"{stem}.html"
    return path if suffix in PICTURES else f"files/{path}.html"


def dotted(path: str) -> str:
    """Return the module name of a Python file or package folder."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def relative(target: str, page: str) -> str:
    """Return the link that leads from the page at ``page`` to ``target`` (both relative to the site's root)."""
    address, mark, fragment = target.partition("#")
    return posixpath.relpath(address, posixpath.dirname(page) or ".") + mark + fragment if address else target


def is_elsewhere(href: str) -> bool:
    """Whether a link leaves the site (or is a place on the same page): it stays as it is written."""
    return href.startswith(("#", "http://", "https://", "mailto:", "data:"))


class Links:
    """Resolves what documents link to. ``pictures``, ``files``: what the pages asked for, to be put on the site too."""

    def __init__(self, root: Path):
        self.root = root
        self.pictures: set[str] = set()
        self.files: set[str] = set()

    def resolve(self, source: str, href: str) -> str:
        """Return ``href`` of the document ``source`` as a link between their pages.

        Raises BrokenLink, naming both, if no such file exists.
        """
        if is_elsewhere(href):
            return href
        address, mark, fragment = href.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), address))
        place = self.root / path
        if path.startswith("..") or not place.exists():
            raise BrokenLink(f"{source} links to {href}, and there is no {path} in the repository")
        url = page_url(path, place.is_dir())
        if place.suffix in PICTURES:
            self.pictures.add(path)
        elif url.startswith("files/"):
            self.files.add(path)
        return relative(url, page_url(source)) + mark + fragment

    def module(self, source: str, name: str) -> str | None:
        """Return the link from the page of ``source`` to a module's page, None for a module of somebody else's."""
        path = name.replace(".", "/")
        is_here = (self.root / path).is_dir() or (self.root / f"{path}.py").is_file()
        if not is_here or name.split(".")[0] not in PACKAGES:
            return None
        return relative(page_url(path, is_directory=True), page_url(source))
