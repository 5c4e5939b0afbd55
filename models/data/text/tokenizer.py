"""Cut running text into words, punctuation and line ends."""

import re

END_OF_LINE = "<eol>"

# The apostrophe belongs to a word only between letters (lov'd, night's): elsewhere it may as well be a quotation mark.
TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*|\n|--+|[^\w\s]|_")


def tokenize(text: str) -> list[str]:
    """Return the lower-case tokens of ``text``: words, single punctuation marks, ``--``, and ``\\n`` after each line.

    Lines without tokens count for nothing.  Called by the sources of running text.  Local.
    """
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    return TOKEN.findall("\n".join([*lines, ""]).lower())
