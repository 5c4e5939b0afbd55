"""Split sentences of running text into words and punctuation marks, and join them again."""

import re

from models.data.text.vocabulary import tokenize

CLOSING = re.compile(r" ([,.;:!?)\]”’»…])")
INSIDE = re.compile(r"(?<=\w)’(?=\w)")
OPENING = re.compile(r"([(\[“‘«¿¡]) ")


def split(text: str) -> list[str]:
    """Return the lower-case words and punctuation marks of a sentence. Local."""
    return [token for token in tokenize(INSIDE.sub("'", text)) if token != "\n"]


def join(words: list[str]) -> str:
    """Return the sentence, with spaces in the right places; all of it is lower-case. Local."""
    return OPENING.sub(r"\1", CLOSING.sub(r"\1", " ".join(words)))
