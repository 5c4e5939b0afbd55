"""``text:FILE``: any UTF-8 text. ``corpus_of``, which numbers the words, also serves the plays of Shakespeare."""

import numpy as np

from models.data.contents import Corpus
from models.data.files import DataError, read_text
from models.data.text.vocabulary import END_OF_LINE, WordCounter, number_by_frequency, tokenize

HELDOUT = 20  # 1 / HELDOUT of the tokens, from the end of each text
SHORTEST = 2 * HELDOUT  # so that the held-out part has at least two words


def load_text(path: str) -> Corpus:
    """Return the tokens of a UTF-8 file; the last 5 % are held out. Local. Raises DataError."""
    remedy = "give a UTF-8 text file: text:FILE"
    return corpus_of(f"text:{path}", {path: read_text(path, remedy)}, remedy)


def corpus_of(name: str, texts: dict[str, str], remedy: str) -> Corpus:
    """Return a Corpus of one or more named texts, the last 5 % of each held out. Local. Raises DataError.

    The vocabulary is that of all the text, held-out parts included, so that no word is unknown. Its words are sorted
    by falling frequency, ties alphabetically, as log-uniform candidate sampling expects.
    """
    counter, numbered = WordCounter(), []
    for path, text in texts.items():
        tokens = tokenize(text)
        if len(tokens) < SHORTEST:
            raise DataError(f"{path}: only {len(tokens)} tokens, at least {SHORTEST} are needed; {remedy}")
        numbered.append(counter.provisional(tokens))
    words = [END_OF_LINE if word == "\n" else word for word in counter.words()]
    counts = np.bincount(np.concatenate(numbered), minlength=len(words)).tolist()
    vocabulary, numbers = number_by_frequency(words, counts)
    cuts = [len(tokens) - len(tokens) // HELDOUT for tokens in numbered]
    train = np.concatenate([tokens[:cut] for tokens, cut in zip(numbered, cuts)])
    heldout = np.concatenate([tokens[cut:] for tokens, cut in zip(numbered, cuts)])
    return Corpus(name, numbers[train], numbers[heldout], vocabulary)
