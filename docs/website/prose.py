"""Markdown to HTML, with links that lead to the site's pages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from docs.website.code import highlight
from docs.website.formula import mathml
from docs.website.links import Links

_EMPTY_HEAD = re.compile(r"<thead>\s*<tr>\s*(?:<th></th>\s*)+</tr>\s*</thead>\s*")
"""Of a table that has no heads: Markdown cannot leave them out."""


@dataclass(frozen=True)
class Heading:
    """One heading of a page: its level (1 is the title), the id to link to, its text."""

    level: int
    id: str
    text: str


@dataclass(frozen=True)
class Prose:
    """HTML and the headings in it."""

    html: str
    headings: list[Heading]

    @property
    def title(self) -> str:
        return next((heading.text for heading in self.headings if heading.level == 1), "")


def render(text: str, source: str, links: Links, math: bool = False, taken: set | None = None) -> Prose:
    """Return Markdown as HTML. Raises BrokenLink.

    source: the file it stands in, relative to the repository; links in it start from there.
    math: whether $…$ is a formula (in shell examples it is not).
    taken: ids of headings that the page has already; those of this text are added.
    """
    markdown = _markdown(math)
    tokens = markdown.parse(text)
    headings = list(_name_headings(tokens, set() if taken is None else taken))
    for token in _all(tokens):
        for attribute in ("href", "src"):
            if attribute in token.attrs:
                token.attrs[attribute] = links.resolve(source, token.attrs[attribute])
        if token.type in ("html_block", "html_inline"):
            token.content = resolve_raw(token.content, source, links)
    env = {"module_link": lambda name: links.module(source, name)}
    html = markdown.renderer.render(tokens, markdown.options, env)
    return Prose(_EMPTY_HEAD.sub("", html), headings)


def slug(text: str) -> str:
    """Return the id that GitHub gives a heading: its links work here too."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


@cache
def _markdown(math: bool) -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    rules = markdown.renderer.rules
    rules["fence"] = lambda tokens, at, options, env: highlight(
        tokens[at].content, tokens[at].info.split(" ")[0], env["module_link"])
    rules["code_block"] = lambda tokens, at, options, env: highlight(tokens[at].content, "text")
    rules["table_open"] = lambda tokens, at, options, env: '<div class="wide" tabindex="0"><table>\n'
    rules["table_close"] = lambda tokens, at, options, env: "</table></div>\n"
    if math:
        dollarmath_plugin(markdown, allow_space=False, allow_digits=False, double_inline=True, renderer=mathml)
    return markdown


def _all(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or [])


def _name_headings(tokens: list[Token], taken: set) -> Iterator[Heading]:
    """Give every heading an id of its own and a link to itself."""
    for opening, inline in zip(tokens, tokens[1:]):
        if opening.type != "heading_open":
            continue
        text = "".join(child.content for child in inline.children if child.type in ("text", "code_inline"))
        name, count = slug(text), 1
        while name in taken:
            name, count = f"{slug(text)}-{count}", count + 1
        taken.add(name)
        opening.attrs["id"] = name
        if opening.tag != "h1":
            inline.children.append(Token("html_inline", "", 0, content=self_link(name)))
        yield Heading(int(opening.tag[1]), name, text)


def self_link(name: str) -> str:
    """Return the sign after a heading that links to it."""
    return f'<a class="self" href="#{name}" aria-label="Link to this section">#</a>'


def resolve_raw(html: str, source: str, links: Links) -> str:
    """Resolve href and src of HTML within Markdown."""
    return re.sub(r'(<(?:a|img)\b[^>]*?\b(?:href|src)=")([^"]+)(")',
                  lambda match: match[1] + escape(links.resolve(source, match[2])) + match[3], html)
