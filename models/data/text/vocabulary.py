"""Cut running text into words, and number them by falling frequency, as log-uniform candidate sampling expects."""

import re
from collections import defaultdict

import numpy as np

END_OF_LINE = "<eol>"

# An apostrophe is part of a word only between letters (lov'd, night's). Elsewhere it may be a quotation mark.
TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*|\n|--+|[^\w\s]|_")


def tokenize(text: str) -> list[str]:
    """Return the lower-case tokens of ``text``: words, single punctuation marks, ``--``, and ``\\n`` after each line.

    Lines without tokens are left out.  Local.
    """
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    return TOKEN.findall("\n".join([*lines, ""]).lower())


class WordCounter:
    """Numbers words in the order of their first occurrence, so that a text is read only once."""

    def __init__(self):
        self.index = defaultdict()
        self.index.default_factory = self.index.__len__  # a new word gets the next number

    def provisional(self, tokens: list[str]) -> np.ndarray:
        """Return the provisional numbers of ``tokens``: (n,) int32."""
        return np.fromiter(map(self.index.__getitem__, tokens), np.int32, len(tokens))

    def words(self) -> list[str]:
        """Return the words so far, provisional number i at position i."""
        return list(self.index)


def number_by_frequency(words: list[str], counts) -> tuple[list[str], np.ndarray]:
    """Return (vocabulary, numbers): words by falling count, ties alphabetically; words[i] is at index numbers[i].

    words: k different words.  counts: (k,) ints.  numbers: (k,) int32.  Local.
    """
    order = sorted(range(len(words)), key=lambda i: (-counts[i], words[i]))
    numbers = np.empty(len(words), np.int32)
    numbers[order] = np.arange(len(words), dtype=np.int32)
    return [words[i] for i in order], numbers
