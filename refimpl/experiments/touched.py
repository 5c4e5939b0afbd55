"""How many rows of its word table a language model touches in a step: counted in a text, and predicted from counts.

    α = distinct words of a worker's microbatches / words of the vocabulary
"""

import numpy as np

from models.data import Corpus, TokenStreams
from models.data.text.vocabulary import number_by_frequency
from models.lm import PRESETS, LanguageModel
from refimpl.plan.sample import Sample, take_sample

UNKNOWN = "<unk>"
STEPS = 16  # samples for a curve, enough to see its shape


def sample_words(corpus: Corpus, streams: int, length: int, *, workers: int = 1, candidates: int | None = None,
                 steps: int = STEPS, seed: int = 0) -> Sample:
    """Return the rows that the language model touches in a text, one microbatch a worker. Local.

    streams: sentences read side by side by one worker.  length: words of each that a step reads.
    candidates: of the sampled softmax; None: as in the preset "small".  A training of this seed touches these rows.
    """
    sizes = dict(PRESETS["small"], vocabulary=corpus.vocabulary_size)
    sizes["samples"] = min(candidates or sizes["samples"], corpus.vocabulary_size)
    return take_sample(LanguageModel(**sizes), TokenStreams(corpus.train, workers, streams, length), seed, steps)


def alpha_of_words(corpus: Corpus, streams: int, length: int, **sampling) -> float:
    """Return α of the table of input words: see ``sample_words``. Local."""
    return sample_words(corpus, streams, length, **sampling).alpha("embedding", sampling.get("workers", 1))


def word_counts(corpus: Corpus) -> np.ndarray:
    """Return how often each word occurs in the text, with its held-out part: (vocabulary,) int64. Local."""
    return sum(np.bincount(part, minlength=corpus.vocabulary_size) for part in (corpus.train, corpus.heldout))


def expected_rows(counts, draws: int) -> float:
    """Return the expected number of distinct words in n independent draws: Σ_w (1 - (1 - p_w)^n). Local.

    counts: (vocabulary,) occurrences of each word; p_w = counts[w] / Σ counts.
    """
    p = np.asarray(counts, np.float64) / max(1, np.sum(counts))
    with np.errstate(divide="ignore"):  # p = 1: log 0 is -inf, and its exp is 0
        return float(-np.expm1(draws * np.log1p(-p)).sum()) if draws else 0.0


def keep_frequent(corpus: Corpus, words: int) -> Corpus:
    """Return the text with this number of words in its vocabulary: all rarer ones become "<unk>". Local.

    Words are numbered by falling frequency again. Raises ValueError for fewer than 2, or more than there are.
    """
    if not 2 <= words <= corpus.vocabulary_size:
        raise ValueError(f"{words} words of {corpus.vocabulary_size}: keep at least 2, and at most all")
    if words == corpus.vocabulary_size:
        return corpus
    if isinstance(corpus.vocabulary, int):
        raise ValueError(f"{corpus.name} has no spelling to sort by: make it with a smaller vocabulary")
    counts = word_counts(corpus)
    order = np.argsort(-counts, kind="stable")
    numbers = np.full(corpus.vocabulary_size, words - 1)
    numbers[order[:words - 1]] = np.arange(words - 1)
    spelled = [corpus.vocabulary[i] for i in order[:words - 1]] + [UNKNOWN]
    vocabulary, final = number_by_frequency(spelled, np.bincount(numbers, counts, words).tolist())
    train, heldout = final[numbers][corpus.train], final[numbers][corpus.heldout]
    return Corpus(f"{corpus.name}, {len(vocabulary)} words", train, heldout, vocabulary)
