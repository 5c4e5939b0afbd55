"""Build the site: read the repository, make pages, write them."""

import json
import re
import shutil
from pathlib import Path

from docs.website import code, notebook, prose
from docs.website.links import Links, page_url, relative
from docs.website.modules import read_modules
from docs.website.pages import HERE, FrontPage, Page, frame, make_environment
from docs.website.reference import reference_pages

GUIDES = ("Guides", "docs/index.html")
ABOUT_NOTEBOOKS = ("Each idea of the paper, run and drawn: 10 to 15 minutes of reading each, in this order. What is "
                   "shown was computed by the cell above it. To run them yourself: <code>make notebooks</code>.")
MOST_BYTES = 400_000
"""Of a file that a page shows; longer ones are cut, and say so."""


def build(root: Path, output: Path) -> list[Page]:
    """Write the whole site into ``output``, which is emptied first; return its pages.

    Raises BrokenLink or SyntaxError, naming the file; then nothing is written.
    """
    links = Links(root)
    pages = [*guide_pages(root, links), *notebook_pages(root, links), *reference_pages(read_modules(root))]
    pages.insert(0, front_page(root, links, pages))
    pages += [file_page(root, path) for path in sorted(links.files)]
    _empty(output)
    environment = make_environment()
    for page in pages:
        _write(output / page.url, frame(page, environment))
    for picture in sorted(links.pictures):
        _copy(root / picture, output / picture)
    for file in sorted((HERE / "static").iterdir()):
        _copy(file, output / "static" / file.name)
    _write(output / "static" / "names.js", search_names(pages))
    return pages


def front_page(root: Path, links: Links, others: list[Page]) -> Page:
    """Return the README with ways into the rest above it."""
    shown = prose.render((root / "README.md").read_text("utf-8"), "README.md", links)
    lead, rest = re.match(r"<h1.*?</h1>\s*(<p>.*?</p>)?(.*)", shown.html, re.DOTALL).groups(default="")
    return FrontPage("index.html", shown.title, rest, headings=shown.headings, template="front.html", lead=lead,
                     description=_first_paragraph(lead), beside_title="Notebooks",
                     beside=[(page.title, page.url) for page in others if page.kind == "notebook"])


def guide_pages(root: Path, links: Links) -> list[Page]:
    """Return a page for each docs/*.md, in the order in which the README speaks of them, and their index."""
    readme = (root / "README.md").read_text("utf-8")
    paths = sorted((root / "docs").glob("*.md"), key=lambda path: (readme.find(path.name) % (len(readme) + 1), path))
    texts = {path.name: prose.render(path.read_text("utf-8"), f"docs/{path.name}", links) for path in paths}
    beside = [(text.title, page_url(f"docs/{name}")) for name, text in texts.items()]
    pages = [Page(page_url(f"docs/{name}"), text.title, text.html, "Findings" if name == "findings.md" else "Guides",
                  "guide", _first_paragraph(text.html), text.headings, [GUIDES], beside, "Guides")
             for name, text in texts.items()]
    return [_index(*GUIDES, pages, "One page for each thing that you may want to do; and what was found."), *pages]


def notebook_pages(root: Path, links: Links) -> list[Page]:
    """Return a page for each notebook, and their index."""
    paths = sorted((root / "notebooks").glob("*.ipynb"), key=_number)
    beside = [(notebook.title_of(path), f"notebooks/{path.stem}.html") for path in paths]
    pages = [notebook.notebook_page(path, f"notebooks/{path.name}", links, beside) for path in paths]
    return [_index(*notebook.INDEX, pages, ABOUT_NOTEBOOKS), *pages]


def file_page(root: Path, path: str) -> Page:
    """Return the page that shows a file which some document links to and which has no page of its own."""
    place = root / path
    if place.is_dir():
        shown = code.plain("\n".join(sorted(f"{item.name}{'/' * item.is_dir()}" for item in place.iterdir())))
    else:
        text = place.read_text("utf-8", errors="replace")
        cut = f"\n… ({len(text) - MOST_BYTES} more characters)" if len(text) > MOST_BYTES else ""
        shown = code.listing(text[:MOST_BYTES] + cut, place.name)
    return Page(page_url(path, place.is_dir()), path, f"<h1><code>{path}</code></h1>{shown}", kind="file",
                is_reading=False)


def search_names(pages: list[Page]) -> str:
    """Return what search.js looks through: [what, kind, page, address] of every page and heading."""
    found = []
    for page in pages:
        found.append([page.title, page.kind, "", page.url])
        for heading in page.headings:
            if heading.level > 1 and heading.id not in ("source", "modules", "public-names"):
                kind = "name" if page.kind == "module" else "section"
                found.append([heading.text, kind, page.title, f"{page.url}#{heading.id}"])
    return f"window.siteNames = {json.dumps(found, ensure_ascii=False, separators=(',', ':'))};\n"


def _index(title: str, url: str, pages: list[Page], about: str) -> Page:
    """Return the page that leads to others of its section."""
    cards = "".join(f'<li><a class="card" href="{relative(page.url, url)}"><b>{page.title}</b>'
                    f"<span>{page.description}</span></a></li>" for page in pages)
    return Page(url, title, f'<h1>{title}</h1><p>{about}</p><ul class="cards">{cards}</ul>', title, "section",
                re.sub(r"<.*?>", "", about))


def _first_paragraph(html: str) -> str:
    found = re.search(r"<p>(.*?)</p>", html, re.DOTALL)
    return re.sub(r"<.*?>", "", found[1]) if found else ""


def _number(path: Path) -> tuple:
    found = re.match(r"\d+", path.stem)
    return (int(found[0]) if found else 10**6, path.stem)


def _empty(folder: Path) -> None:
    """Empty a folder that an earlier build wrote; refuse any other.

    Raises FileExistsError where the folder holds something else: its name was perhaps mistyped.
    """
    if folder.exists():
        if any(folder.iterdir()) and not (folder / "static" / "names.js").exists():
            raise FileExistsError(f"{folder} holds other files than a site: choose another --output")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
