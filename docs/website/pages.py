"""Page, and the frame around all pages."""

from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from docs.website.links import relative
from docs.website.prose import Heading

HERE = Path(__file__).parent

SECTIONS = (("Notebooks", "notebooks/index.html"), ("Guides", "docs/index.html"),
            ("Findings", "docs/findings.html"), ("Reference", "reference/index.html"))
"""What the head of every page leads to."""


@dataclass(frozen=True)
class Page:
    """One page. Addresses are relative to the site's root.

    section: the title of one of SECTIONS, or "".  trail: (title, address) of the pages above it.
    beside: (title, address) of its neighbours, shown at its side; this page among them.
    headings: what "On this page" lists (levels 2 and 3).  kind: what a search result says of it.
    """

    url: str
    title: str
    html: str
    section: str = ""
    kind: str = "page"
    description: str = ""
    headings: list[Heading] = field(default_factory=list)
    trail: list[tuple[str, str]] = field(default_factory=list)
    beside: list[tuple[str, str]] = field(default_factory=list)
    beside_title: str = ""
    template: str = "page.html"
    is_reading: bool = True  # prose, in lines of a comfortable length; otherwise the page is as wide as it needs


@dataclass(frozen=True)
class FrontPage(Page):
    """The first page.  lead: HTML of its first paragraph."""

    lead: str = ""


def frame(page: Page, environment: Environment) -> str:
    """Return the whole HTML document of a page."""
    contents = [heading for heading in page.headings if heading.level in (2, 3)]
    return environment.get_template(page.template).render(
        page=page, sections=SECTIONS, contents=contents if len(contents) > 2 else [],
        to=lambda url: relative(url, page.url))


def make_environment() -> Environment:
    """Return the templates; what they are not given is an error."""
    return Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined,
                       trim_blocks=True, lstrip_blocks=True)
