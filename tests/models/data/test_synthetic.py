"""The synthetic language: its law, its size, and the names that ``load`` refuses."""

import math
import tracemalloc

import numpy as np
import pytest

from models.data import DataError, load
from models.data.pairs.synthetic import LENGTH
from models.data.pairs.words import END, PADDING
from models.data.text.synthetic import load_synthetic, octave_sizes

CHILD = 3 / 4  # the probability of a child


def transition_matrix(size):
    """Return (p, T): the language written out, p (V,), T[w, next] (V, V)."""
    p = 0.5 ** np.floor(np.log2(np.arange(size) + 1))
    p /= p.sum()
    matrix = np.tile((1 - CHILD) * p, (size, 1))
    for word in range(size):
        for child in (2 * word + 1, 2 * word + 2):
            matrix[word, child if child < size else 0] += CHILD / 2
    return p, matrix


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 20, 31, 100, 255])
def test_the_law_is_kept_by_every_step(size):
    p, matrix = transition_matrix(size)
    # Sums of at most V non-negative terms of at most 1: each rounds V times at most.
    bound = 4 * size * np.finfo(float).eps
    np.testing.assert_allclose(p @ matrix, p, rtol=0, atol=bound)
    assert sum(octave_sizes(size)) == size


@pytest.mark.parametrize("size", [20, 100])
def test_text_follows_the_law(size):
    p, matrix = transition_matrix(size)
    tokens = load_synthetic(str(size), tokens=200_000, heldout_tokens=0).train
    counts = np.bincount(tokens, minlength=size)
    # Chains of 64 tokens are independent: variance of a count is at most 64 · n · p; six sigma.
    assert (np.abs(counts - len(tokens) * p) < 6 * np.sqrt(64 * len(tokens) * p)).all()
    likelihood = -np.log(matrix[tokens[:-1], tokens[1:]]).mean()
    unigram = -sum(x * math.log(x) for x in p)
    conditional = -sum(p[w] * x * math.log(x) for w in range(size) for x in matrix[w] if x)
    assert abs(likelihood - conditional) < 0.1 < unigram - conditional


def test_text_is_written_down():
    # Integers only, so another machine or another version of NumPy must give the same words.
    assert load_synthetic("100", tokens=9).train.tolist() == [3, 8, 17, 67, 0, 2, 6, 14, 29]
    tokens = load_synthetic("1000000000000", tokens=6).train.tolist()
    assert tokens == [120811, 241624, 483249, 254471840344, 508943680689, 0]


def test_a_shorter_text_is_the_beginning_of_a_longer_one_and_seeds_differ():
    short, long = (load_synthetic("1000", tokens=n, heldout_tokens=n) for n in (1000, 3000))
    np.testing.assert_array_equal(short.train, long.train[:1000])
    assert not np.array_equal(short.train, short.heldout)
    assert not np.array_equal(short.train, load_synthetic("1000", tokens=1000, seed=1).train)
    assert short.fingerprint == load_synthetic("1000", tokens=1000, heldout_tokens=1000).fingerprint


@pytest.mark.parametrize("size", [1, 2, 3, 2**31, 2**31 + 1, 2**40 - 1, 2**61])
def test_any_vocabulary_without_a_table_of_its_size(size):
    tracemalloc.start()
    corpus = load_synthetic(str(size), tokens=20_000, heldout_tokens=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6
    assert corpus.vocabulary_size == size and 0 <= corpus.train.min() and corpus.train.max() < size
    assert corpus.train.dtype == (np.int32 if size <= 2**31 else np.int64)
    if size > 2**31:
        assert corpus.train.max() > size // 8


def test_default_is_ten_thousand_words():
    corpus = load("synthetic")
    assert (corpus.vocabulary_size, len(corpus.train), len(corpus.heldout)) == (10_000, 1_000_000, 50_000)
    assert load_synthetic(tokens=0, heldout_tokens=0).train.size == 0


@pytest.mark.parametrize("name, complaint", [
    ("hamlet", "no data called 'hamlet'; there are shakespeare, text:FILE"), ("", "no data called ''"),
    ("text", "'text' should read text:FILE"), ("lm1b:", "should read lm1b:DIR"), ("digits:8", "should read digits"),
    ("synthetic:many", "not a number"), ("synthetic:0", "1 to 2\\^61"),
    ("synthetic:2305843009213693953", "1 to 2\\^61"),
])
def test_names_are_refused(name, complaint):
    with pytest.raises(DataError, match=complaint):
        load(name)


def test_pairs_have_all_lengths_and_an_end():
    for sources, targets in (pairs := load("synthetic-pairs:50")).train, pairs.heldout:
        words, translated = (np.count_nonzero(side != PADDING, axis=1) for side in (sources, targets))
        assert set(words) == set(range(1, LENGTH + 1)) == {length - 1 for length in translated}
        assert (targets[np.arange(len(targets)), translated - 1] == END).all()
