"""Sentences of running text: words and punctuation, and back."""

import re

from models.data.text.vocabulary import tokenize

CLOSING = re.compile(r" ([,.;:!?)\]”’»…])")
INSIDE = re.compile(r"(?<=\w)’(?=\w)")
OPENING = re.compile(r"([(\[“‘«¿¡]) ")


def split(text: str) -> list[str]:
    """Return the lower-case words and punctuation marks of a sentence. Local."""
    return [token for token in tokenize(INSIDE.sub("'", text)) if token != "\n"]


def join(words: list[str]) -> str:
    """Return the sentence, punctuation where it belongs; what was upper-case stays lower-case. Local."""
    return OPENING.sub(r"\1", CLOSING.sub(r"\1", " ".join(words)))
