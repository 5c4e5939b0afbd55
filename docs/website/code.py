"""Highlighted code."""

import re
from html import escape

from pygments import highlight as pygments_highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.util import ClassNotFound

SHELL = ("", "text", "console")
"""Languages of fences that are mostly commands and what they print: shown as they are."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_MODULE = re.compile(r'<span class="nn">([\w.]+)</span>')
_PLAIN = re.compile(r'<span class="(?:n|p|w|o|nn|nb|bp|vm|err|x)">([^<]*)</span>')  # style.css has no colour for these


def highlight(text: str, language: str, module_link=lambda name: None) -> str:
    """Return a scrollable block of code in ``language`` (a Pygments name; unknown ones are shown plain).

    module_link(name): where an imported module's page is, or None.
    """
    try:
        lexer = None if language in SHELL else get_lexer_by_name(language)
    except ClassNotFound:
        lexer = None
    body = _coloured(text, lexer, module_link) if lexer else escape(text, quote=False)
    boxes = " boxes" if any(sign in text for sign in "│┃─━") else ""  # lines close enough for the boxes to be whole
    return f'<pre class="code{boxes}" tabindex="0"><code>{body.rstrip()}</code></pre>'


def listing(text: str, filename: str, module_link=lambda name: None) -> str:
    """Return a file with numbered lines, line 12 at #L-12.  module_link: see ``highlight``."""
    try:
        lexer = get_lexer_for_filename(filename, stripnl=False)
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    lines = _coloured(text, lexer, module_link).split("\n")[:-1]
    body = "".join(f'<span id="L-{number}">{line}\n</span>' for number, line in enumerate(lines, 1))
    return f'<pre class="code listing" tabindex="0"><code>{body}</code></pre>'


def plain(text: str, kind: str = "output") -> str:
    """Return text as it was printed, without a terminal's colours."""
    return f'<pre class="{kind}" tabindex="0">{escape(_ANSI.sub("", text), quote=False).rstrip()}</pre>'


def _coloured(text: str, lexer, module_link) -> str:
    def linked(match):
        link = module_link(match[1])
        return f'<a href="{link}">{match[1]}</a>' if link else match[1]

    return _PLAIN.sub(r"\1", _MODULE.sub(linked, pygments_highlight(text, lexer, HtmlFormatter(nowrap=True))))
