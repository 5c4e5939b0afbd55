"""The finished files: everything is there, and no link between them is dead, in raw HTML either."""

import re
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import unquote

ROOT = Path(__file__).parents[2]
PACKAGES = ("refimpl", "models", "kernels")
LOADED = re.compile(r"""<(?:img|script|iframe|source|link)\b[^>]*?\b(?:src|href)="([^"]+)""")
LINK = re.compile(r"""<(?:a|img|script|iframe|source|link)\b[^>]*?\b(?:src|href)="([^"]+)""")


def problems(site):
    """Return a line for each dead link, each thing that is loaded from elsewhere, each picture without words."""
    pages = {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in site.rglob("*.html")
             if path.name != "webpack-macros.html"}  # a template of the theme's
    ids = {page: {name for tag in re.findall(r"<[^>]+>", text) for name in re.findall(r'\bid="([^"]+)"', tag)}
           for page, text in pages.items()}
    found = []
    for page, text in pages.items():
        for link in set(LINK.findall(text)):
            address, _, place = unquote(link).partition("#")
            target = normpath(join(dirname(page), address.partition("?")[0])) if address else page
            if re.match(r"(https?:|mailto:|data:|//)", link):
                continue
            if not (site / target).is_file():
                found.append(f"{page}: no {link}")
            elif place and target in ids and place not in ids[target]:
                found.append(f"{page}: no such place {link}")
        found += [f"{page}: loads {link}" for link in LOADED.findall(text) if re.match("(https?:)?//", link)]
        found += [f"{page}: no words for {tag[:90]}" for tag in re.findall(r"<img\b[^>]*>", text)
                  if not re.search(r'alt="[^"]*\S', tag)]
    return found


def test_no_dead_link(site):
    assert problems(site) == []


def test_dead_links_are_seen(tmp_path):
    (tmp_path / "a.html").write_text('<p id="x"></p><a href="#x">1</a><a class="y" href="#z">2</a><img src="no.svg">'
                                     '<script src="https://example.org/x.js"></script><a href="https://example.org">')
    assert sorted(problems(tmp_path)) == [
        "a.html: loads https://example.org/x.js", "a.html: no no.svg", "a.html: no such place #z",
        'a.html: no words for <img src="no.svg">']


def test_everything_has_its_page(site):
    for path in [*ROOT.glob("docs/*.md"), *ROOT.glob("notebooks/*.ipynb"), ROOT / "README.md"]:
        assert path.stem == "index" or (site / path.relative_to(ROOT)).with_suffix(".html").is_file(), path
    modules = [path.relative_to(ROOT) for top in PACKAGES for path in (ROOT / top).rglob("*.py")
               if path.name != "__main__.py"]
    assert len(modules) > 100
    for module in modules:
        page = module.parent if module.stem == "__init__" else module.with_suffix("")
        assert (site / "reference" / page / "index.html").is_file(), module
