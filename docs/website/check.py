"""What a finished site must not have: broken links, pictures without words, anything from another host."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath

_LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}


@dataclass
class _Document(HTMLParser):
    """One page's links, ids, what it loads, and its mistakes."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)

    def __post_init__(self):
        super().__init__()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if attributes.get(_LOADED.get(tag, "")):
            self.loaded.append(attributes[_LOADED[tag]])
        if tag == "img" and not attributes.get("alt", "").strip():
            self.mistakes.append(f"picture {attributes.get('src', '')[:80]} has no text alternative")


def problems(site: Path) -> list[str]:
    """Return one line for each thing that is wrong with the site in a folder: page, culprit, why."""
    documents = {}
    for path in sorted(site.rglob("*.html")):
        document = documents[path.relative_to(site).as_posix()] = _Document()
        document.feed(path.read_text("utf-8"))
    found = []
    for page, document in documents.items():
        found += [f"{page}: {mistake}" for mistake in document.mistakes]
        found += [f"{page}: the id {name} stands twice" for name in _twice(document.ids)]
        found += [f"{page}: loads {address} from elsewhere" for address in document.loaded if "//" in address
                  and not address.startswith("data:")]
        inside = [link for link in document.links + document.loaded if not _leaves(link)]
        found += [f"{page}: {why}" for link in dict.fromkeys(inside) if (why := _broken(link, page, documents, site))]
    return found


def _leaves(link: str) -> bool:
    return link.startswith(("http://", "https://", "mailto:", "data:"))


def _broken(link: str, page: str, documents: dict[str, _Document], site: Path) -> str:
    """Return why a link leads nowhere, "" if it leads somewhere."""
    address, _, fragment = link.partition("#")
    target = normpath(join(dirname(page), address)) if address else page
    if target.startswith("..") or not (site / target).is_file():
        return f"links to {link}, and there is no such page"
    if fragment and target in documents and fragment not in documents[target].ids:
        return f"links to {link}, and {target} has no such place"
    return ""


def _twice(names: list[str]) -> list[str]:
    seen, twice = set(), []
    for name in names:
        (twice.append if name in seen else seen.add)(name)
    return twice
