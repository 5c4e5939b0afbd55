"""Sentence pairs as word numbers. Each of the two vocabularies has three special words, then words by frequency."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Callable, ClassVar

import numpy as np

from models.data.contents import freeze, require_enough
from models.data.files import DataError
from models.data.pairs.buckets import PairBuckets
from models.data.protocol import fingerprint_of
from models.data.text.vocabulary import number_by_frequency, tokenize

UNKNOWN, START, END, PADDING = 0, 1, 2, -1
SPECIAL = ("<unk>", "<s>", "</s>")
"""Numbers of an unknown word, of the decoder's first input, of a sentence's end, and of padding."""
LONGEST = 50
"""The most words in a sentence. Longer pairs are left out, as the authors do (docs/paper.md, Models)."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sentence pairs.

    train, heldout: (sources (n, longest), targets (n, longest)) int32, PADDING past a sentence's end; targets end with
    END.  vocabularies: words of the source language and of the target language, number i at position i.
    split: text -> words.  join: words -> text, of the target language.  left_out: pairs that are too long.
    fingerprint: hex SHA-256 of the content.
    """

    kind: ClassVar[str] = "sentence pairs"
    suggested: ClassVar[dict] = {}

    name: str
    train: tuple[np.ndarray, np.ndarray]
    heldout: tuple[np.ndarray, np.ndarray]
    vocabularies: tuple[list[str], list[str]]
    split: Callable[[str], list[str]]
    join: Callable[[list[str]], str]
    left_out: int = 0
    fingerprint: str = field(init=False)

    def __post_init__(self):
        freeze(*self.train, *self.heldout)
        object.__setattr__(self, "fingerprint", fingerprint_of(*self.train, *self.heldout, *self.vocabularies))

    @property
    def sizes(self) -> dict:
        """Sizes that a model of these pairs must have."""
        return dict(zip(("source_vocabulary", "target_vocabulary"), map(len, self.vocabularies)))

    def cut(self, recipe, seed: int) -> tuple[PairBuckets, PairBuckets]:
        """Return the pairs in microbatches of similar lengths, and the first ``recipe.heldout`` held-out pairs."""
        require_enough(len(self.train[0]), "sentence pairs", recipe)
        words = np.cumsum((self.heldout[1] != PADDING).sum(axis=1))
        few = max(int(np.searchsorted(words, recipe.heldout, side="right")), 1)
        cut = recipe.microbatches, recipe.microbatch_size, seed
        return PairBuckets(*self.train, *cut), PairBuckets(*(part[:few] for part in self.heldout), *cut, shuffle=False)

    def numbers(self, text: str) -> np.ndarray:
        """Return a source sentence as word numbers: (n,) int64. Local. Raises ValueError if it has no words."""
        words = self.split(text)
        if not words:
            raise ValueError(f"{text!r} has no words to translate")
        return rows([words], self.vocabularies[0], ends=False)[0].astype(np.int64)

    def text(self, numbers, side: int = 1) -> str:
        """Return the text of word numbers, up to END, in the target language (side 0: the source language). Local."""
        vocabulary, words = self.vocabularies[side], []
        for number in numbers:
            if number in (END, PADDING):
                break
            words.append(vocabulary[number])
        return self.join(words) if side else " ".join(words)


def pairs_of(name, train, heldout, split, join, remedy, vocabularies=(None, None), longest=LONGEST) -> Pairs:
    """Return Pairs of sentences in words. Local. Raises DataError if too few are left.

    train, heldout: [(source words, target words)].  vocabularies: two, without SPECIAL; None: the words of train.
    """
    kept = [[pair for pair in part if all(0 < len(words) <= longest for words in pair)] for part in (train, heldout)]
    for what, part in zip(("train on", "hold out"), kept):
        if not part:
            raise DataError(f"{name}: no sentence pair of 1 to {longest} words to {what}; {remedy}")
    known = [[*SPECIAL, *(words_by_frequency(pair[side] for pair in kept[0]) if given is None else given)]
             for side, given in enumerate(vocabularies)]
    parts = [tuple(rows([pair[side] for pair in part], words, ends=bool(side)) for side, words in enumerate(known))
             for part in kept]
    return Pairs(name, *parts, tuple(known), split, join, len(train) + len(heldout) - sum(map(len, kept)))


def held_out(pairs, every: int) -> tuple[list, list]:
    """Return (train, heldout): the last pair of every ``every`` pairs is held out. Local."""
    return [pair for n, pair in enumerate(pairs, 1) if n % every], pairs[every - 1::every]


def words_by_frequency(sentences) -> list[str]:
    """Return the words of sentences by falling frequency, ties alphabetically. Local."""
    counts = Counter(word for sentence in sentences for word in sentence)
    return number_by_frequency([*counts], [*counts.values()])[0]


def rows(sentences, vocabulary, ends: bool) -> np.ndarray:
    """Return sentences as rows of word numbers: (n, longest) int32, with END if ``ends``, then PADDING. Local."""
    index = {word: number for number, word in enumerate(vocabulary)}
    found = np.full((len(sentences), max(map(len, sentences)) + ends), PADDING, np.int32)
    for row, sentence in zip(found, sentences):
        row[:len(sentence)] = [index.get(word, UNKNOWN) for word in sentence]
        if ends:
            row[len(sentence)] = END
    return found


CLOSING = re.compile(r" ([,.;:!?)\]”’»…])")
INSIDE = re.compile(r"(?<=\w)’(?=\w)")
OPENING = re.compile(r"([(\[“‘«¿¡]) ")


def split(text: str) -> list[str]:
    """Return the lower-case words and punctuation marks of a sentence. Local."""
    return [token for token in tokenize(INSIDE.sub("'", text)) if token != "\n"]


def join(words: list[str]) -> str:
    """Return the sentence, with spaces in the right places; all of it is lower-case. Local."""
    return OPENING.sub(r"\1", CLOSING.sub(r"\1", " ".join(words)))
