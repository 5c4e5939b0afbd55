"""``numbers[:LANGUAGES]``: the numbers below a million, written in two languages by the package num2words.

This is a small real translation problem whose answers are easy to judge: "three thousand two hundred and four" is "tres
mil doscientos cuatro". Numbers of each length are equally frequent. Held-out numbers do not occur in the training data.
"""

import re

import numpy as np

from kernels.random import key_of, uniform
from models.data.files import DataError
from models.data.pairs.words import Pairs, pairs_of

DIGITS = 6
TRAIN, HELDOUT = 12_000, 1_000
ALWAYS_TRAINED = 100
"""Smaller numbers are never held out, because they contain nearly all words."""
MOST_WORDS = 500
"""If a language has more words in TRAIN numbers, it writes a number as one word, which is then split into letters."""


def load_numbers(languages: str = "en-es") -> Pairs:
    """Return TRAIN and HELDOUT numbers in two languages, e.g. "en-de". Local. Raises DataError."""
    sides = languages.split("-")
    if len(sides) != 2:
        raise DataError(f"numbers:{languages}: give two languages, as num2words names them: numbers:en-es")
    drawn = numbers_of(TRAIN + HELDOUT)
    held = [number for number in drawn if number >= ALWAYS_TRAINED][:HELDOUT]
    chosen = held + sorted(set(drawn) - set(held))
    written = [[split(text) for text in spell(chosen, language)] for language in sides]
    by_letter = [len({word for words in side for word in words}) > MOST_WORDS for side in written]
    written = [[letters(words) for words in side] if by else side for side, by in zip(written, by_letter)]
    pairs = list(zip(*written))
    join, read = (join_letters if by_letter[1] else " ".join), (lambda text: letters(split(text)))
    return pairs_of(f"numbers:{languages}", pairs[HELDOUT:], pairs[:HELDOUT], read if by_letter[0] else split, join,
                    "give other languages", longest=max(len(words) for pair in pairs for words in pair))


def numbers_of(count: int) -> list[int]:
    """Return ``count`` different numbers below 10^DIGITS, each drawn with a random number of digits. Local."""
    drawn = uniform(key_of("numbers"), 6 * count).reshape(-1, 2)
    digits = (drawn[:, 0] * DIGITS).astype(np.int64)
    low = np.where(digits == 0, 0, 10**digits)
    values = low + (drawn[:, 1] * (10**(digits + 1) - low)).astype(np.int64)
    return list(dict.fromkeys(values.tolist()))[:count]


def spell(numbers, language: str) -> list[str]:
    """Return the numbers in words. Local. Raises DataError if num2words does not know the language."""
    from num2words import num2words

    try:
        return [num2words(number, lang=language) for number in numbers]
    except NotImplementedError:
        raise DataError(f"num2words writes no numbers in {language!r}; see the languages in its documentation"
                        ) from None


def split(text: str) -> list[str]:
    """Return the words of a spelled number in lower case, without commas and hyphens. Local."""
    return re.sub(r"[,\-\u00ad]", " ", text.lower()).split()


def letters(words: list[str]) -> list[str]:
    """Return the letters of words, and "_" between words. Local."""
    return list("_".join(words))


def join_letters(found: list[str]) -> str:
    """Return the words from their ``letters``. Local."""
    return "".join(found).replace("_", " ")
