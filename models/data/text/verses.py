"""Passages of Shakespeare, each with the kind of its play: comedy, history or tragedy.

A passage has only spoken words. Names of speakers, stage directions and headings are left out, because they would
reveal the play.
"""

import re
from dataclasses import dataclass

import numpy as np

from models.data.contents import freeze
from models.data.files import read_text
from models.data.text.shakespeare import REMEDY, play_files
from models.data.text.vocabulary import WordCounter, number_by_frequency, tokenize

KINDS = {"comedies": "comedy", "histories": "history", "tragedies": "tragedy"}
"""Folder of the plays -> their kind; the plays in other folders are left out."""
HELDOUT = 8
"""1 / HELDOUT of the passages, evenly through each play, is held out, so training covers all plays."""
NOT_SPOKEN = re.compile(r"^#.*$|\*+(?:[^*\n]|\n(?!\n))+\*+|_(?:[^_\n]|\n(?!\n))*_|\[[^\]]*\]", re.MULTILINE)
"""Headings, speakers and stage directions. They end at an empty line."""


@dataclass(frozen=True, eq=False)
class Verses:
    """Passages as rows of word numbers, each with the kind of its play.

    train, heldout: (n, words) int64, below len(vocabulary).  train_kinds, heldout_kinds: (n,) int64, indices in
    ``kinds``; train_plays, heldout_plays: in ``plays``, the names of the plays.  vocabulary: words by falling
    frequency.  All read-only.
    """

    train: np.ndarray
    train_kinds: np.ndarray
    train_plays: np.ndarray
    heldout: np.ndarray
    heldout_kinds: np.ndarray
    heldout_plays: np.ndarray
    vocabulary: list[str]
    kinds: tuple[str, ...]
    plays: tuple[str, ...]


def load_verses(words: int = 32) -> Verses:
    """Return all passages of ``words`` words in 25 plays. Local. Raises DataError as ``load_shakespeare`` does."""
    counter, plays, kinds = WordCounter(), [], tuple(KINDS.values())
    for file in play_files():
        if (folder := file.parent.name) in KINDS:
            spoken = spoken_words(read_text(file.locate(), REMEDY))
            numbered = counter.provisional(spoken)
            passages = numbered[:len(numbered) // words * words].reshape(-1, words)
            plays.append((file.stem, kinds.index(KINDS[folder]), passages))
    names, kind_of, pieces = zip(*plays)
    passages, play = np.concatenate(pieces), np.repeat(np.arange(len(plays)), [len(piece) for piece in pieces])
    kind = np.array(kind_of)[play]
    counts = np.bincount(passages.ravel(), minlength=len(counter.words()))
    vocabulary, numbers = number_by_frequency(counter.words(), counts)
    passages = numbers[passages].astype(np.int64)
    held = np.concatenate([np.arange(len(piece)) % HELDOUT == HELDOUT - 1 for piece in pieces])
    train, heldout = ((passages[part], kind[part], play[part]) for part in (~held, held))
    freeze(*train, *heldout)
    return Verses(*train, *heldout, vocabulary, kinds, names)


def spoken_words(text: str) -> list[str]:
    """Return the words of a play's speeches, lower-case, without punctuation. Local."""
    return [token for token in tokenize(NOT_SPOKEN.sub("", text)) if token[0].isalnum()]
