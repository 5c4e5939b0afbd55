"""Rows that a text touches: counted, and foretold from how often words occur."""

import numpy as np
import pytest

from models.data import Corpus
from refimpl.experiments.touched import UNKNOWN, alpha_of_words, expected_rows, keep_frequent, sample_words, word_counts


@pytest.fixture
def corpus():
    """Words 0 to 5, often to seldom, in an order with repeats."""
    train = np.array([0, 1, 0, 2, 0, 1, 3, 0, 1, 2, 0, 4, 0, 1, 2, 3], np.int32)
    return Corpus("small", train, np.array([5, 0], np.int32), ["a", "b", "c", "d", "e", "f"])


def test_alpha_counts_distinct_words_of_each_worker(corpus):
    assert alpha_of_words(corpus, 1, 5, steps=(0,)) == 3 / 6  # a b a c a
    assert alpha_of_words(corpus, 1, 16, steps=(0,)) == 5 / 6  # 15 pairs: the last word is only a target
    sample = sample_words(corpus, 1, 4, workers=2, steps=(0,), candidates=1)
    assert [list(ids) for ids in sample.pulled(0, "embedding", 2)] == [[0, 1, 2], [0, 1, 2, 4]]
    assert alpha_of_words(corpus, 1, 4, workers=2, steps=(0,)) == pytest.approx(7 / 12)


def test_counts_have_all_of_the_text(corpus):
    assert list(word_counts(corpus)) == [7, 4, 3, 2, 1, 1]


def test_expected_rows_of_independent_draws():
    assert expected_rows([1, 1], 0) == 0 and expected_rows([5, 3, 2], 1) == pytest.approx(1)
    assert expected_rows([1, 1], 2) == pytest.approx(1.5) and expected_rows([9, 0], 3) == pytest.approx(1)
    rng, p = np.random.default_rng(0), np.array([0.5, 0.25, 0.125, 0.125])
    seen = np.mean([len(np.unique(rng.choice(4, 6, p=p))) for _ in range(20_000)])
    assert expected_rows(p, 6) == pytest.approx(seen, abs=0.02)


def test_the_rarest_words_become_one(corpus):
    small = keep_frequent(corpus, 3)
    assert small.vocabulary == [UNKNOWN, "a", "b"]  # 7, 7 and 4 times; ties alphabetically
    assert list(small.train[:8]) == [1, 2, 1, 0, 1, 2, 0, 1] and list(small.heldout) == [0, 1]
    assert keep_frequent(corpus, 6) is corpus and small.vocabulary_size == 3


def test_refusals(corpus):
    for words in (1, 7):
        with pytest.raises(ValueError, match=f"{words} words of 6: keep at least 2"):
            keep_frequent(corpus, words)
    with pytest.raises(ValueError, match="no spelling"):
        keep_frequent(Corpus("bare", corpus.train, corpus.heldout, 6), 3)
