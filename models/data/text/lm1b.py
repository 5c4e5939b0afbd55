"""``lm1b:DIR``: the tokenised one-billion-word benchmark (Chelba et al. 2013). The paper trains on it."""

from itertools import repeat
from pathlib import Path

import numpy as np

from models.data.contents import Corpus
from models.data.files import DataError, read_text, require_directory
from models.data.text.vocabulary import WordCounter, number_by_frequency

BOUNDARY, UNKNOWN = "<S>", "<UNK>"
MIN_COUNT = 3
VOCABULARY_FILE = "1b_word_vocab.txt"
TRAIN = "training-monolingual.tokenized.shuffled", "news.en-*-of-*"
HELDOUT = "heldout-monolingual.tokenized.shuffled", "news.en.heldout-*-of-*"
REMEDY = ("unpack 1-billion-word-language-modeling-benchmark-r13output.tar.gz (https://www.statmt.org/lm-benchmark/) "
          "and give its directory: lm1b:DIR")


def load_lm1b(path: str) -> Corpus:
    """Return all training files, and the first held-out file. Local.

    Each file is ``<S> w … w <S> w … w <S>``.  Words are numbered by DIR/1b_word_vocab.txt if it exists, else by falling
    frequency in the training files; words seen fewer than MIN_COUNT times in them are ``<UNK>``.
    Raises DataError.
    """
    directory = require_directory(path, REMEDY)
    train_files, heldout_files = shard_files(directory, *TRAIN), shard_files(directory, *HELDOUT)[:1]
    vocabulary_file = directory / VOCABULARY_FILE
    if vocabulary_file.exists():
        vocabulary, train = read_vocabulary(vocabulary_file), None
    else:
        vocabulary, train = count_words(train_files)
    index = {word: number for number, word in enumerate(vocabulary)}
    if train is None:
        train = look_up(train_files, index)
    return Corpus(f"lm1b:{path}", train, look_up(heldout_files, index), vocabulary)


def shard_files(directory: Path, folder: str, pattern: str) -> list[Path]:
    """Return the files of a kind, in DIR/folder or in DIR itself. Local. Raises DataError."""
    where = directory / folder if (directory / folder).is_dir() else directory
    files = sorted(where.glob(pattern))
    if not files:
        raise DataError(f"{where}: 0 files {pattern}, at least 1 needed; {REMEDY}")
    return files


def read_shard(path: Path) -> list[str]:
    """Return the tokens of a shard, ``<S>`` before, between and after its sentences. Local. Raises DataError."""
    # Not splitlines(): the text has Unicode line separators inside sentences.
    sentences = [line for line in map(str.strip, read_text(path, REMEDY).split("\n")) if line]
    if not sentences:
        raise DataError(f"{path}: empty file; {REMEDY}")
    return f"{BOUNDARY} {f' {BOUNDARY} '.join(sentences)} {BOUNDARY}".split()


def read_vocabulary(path: Path) -> list[str]:
    """Return the words of a vocabulary file. A line is a word, or a word and its count. Local. Raises DataError."""
    words = []
    for number, line in enumerate(read_text(path, REMEDY).split("\n"), 1):
        fields = line.split()
        if len(fields) > 2 or len(fields) == 2 and not fields[1].isdigit():
            raise DataError(f"{path}: line {number} is not a word, or a word and its count: {line!r}")
        words += fields[:1]
    if len(set(words)) != len(words):
        raise DataError(f"{path}: {len(words) - len(set(words))} words occur more than once")
    for word in (BOUNDARY, UNKNOWN):
        if word not in words:
            raise DataError(f"{path}: {word} is missing; take the benchmark's {VOCABULARY_FILE} or remove the file")
    return words


def count_words(files: list[Path]) -> tuple[list[str], np.ndarray]:
    """Return (vocabulary by falling frequency, tokens of all files): list, (n,) int32. Local. Raises DataError."""
    counter = WordCounter()
    provisional = np.concatenate([counter.provisional(read_shard(file)) for file in files])
    boundary, unknown = counter.index[BOUNDARY], counter.index[UNKNOWN]
    words = counter.words()
    counts = np.bincount(provisional, minlength=len(words))
    kept = counts >= MIN_COUNT
    kept[[boundary, unknown]] = True
    counts[unknown] += counts[~kept].sum()
    survivors = np.flatnonzero(kept)
    vocabulary, order = number_by_frequency([words[i] for i in survivors], counts[survivors].tolist())
    numbers = np.empty(len(words), np.int32)
    numbers[survivors] = order
    numbers[~kept] = numbers[unknown]
    return vocabulary, numbers[provisional]


def look_up(files: list[Path], index: dict[str, int]) -> np.ndarray:
    """Return the numbers of all tokens in a given vocabulary, else that of ``<UNK>``: (n,) int32. Local."""
    return np.concatenate([np.fromiter(map(index.get, tokens, repeat(index[UNKNOWN])), np.int32, len(tokens))
                           for tokens in map(read_shard, files)])
