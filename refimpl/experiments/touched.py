"""How many rows of its word table a language model touches in a step: looked up in a text, and foretold from counts.

    α = distinct words of a worker's microbatches / words of the vocabulary
"""

import numpy as np

from models.data import Corpus, TokenStreams
from models.data.text.vocabulary import number_by_frequency
from models.lm import PRESETS, LanguageModel
from refimpl.plan.sample import Sample, take_sample

UNKNOWN = "<unk>"
STEPS = 16  # sampled for a curve: smooth enough to see its shape


def sample_words(corpus: Corpus, streams: int, length: int, *, workers: int = 1, candidates: int | None = None,
                 steps: int = STEPS, seed: int = 0) -> Sample:
    """Return the rows that the language model touches on a text, one microbatch a worker. Local.

    streams: sentences read side by side by one worker.  length: words of each that a step reads.
    candidates: of the sampled softmax, None: as in the preset "small".  A training of this seed touches these rows.
    """
    sizes = dict(PRESETS["small"], vocabulary=corpus.vocabulary_size)
    sizes["samples"] = min(candidates or sizes["samples"], corpus.vocabulary_size)
    return take_sample(LanguageModel(**sizes), TokenStreams(corpus.train, workers, streams, length), seed, steps)


def alpha_of_words(corpus: Corpus, streams: int, length: int, **sampling) -> float:
    """Return α of the table of input words: see ``sample_words``. Local."""
    return sample_words(corpus, streams, length, **sampling).alpha("embedding", sampling.get("workers", 1))


def word_counts(corpus: Corpus) -> np.ndarray:
    """Return how often each word occurs in the whole text, its held-out part too: (vocabulary,) int64. Local."""
    return sum(np.bincount(part, minlength=corpus.vocabulary_size) for part in (corpus.train, corpus.heldout))


def expected_rows(counts, draws: int) -> float:
    """Return how many distinct words n independent draws are expected to bring: Σ_w (1 - (1 - p_w)^n). Local.

    counts: (vocabulary,) how often each word occurs; p_w = counts[w] / Σ counts.
    """
    p = np.asarray(counts, np.float64) / max(1, np.sum(counts))
    with np.errstate(divide="ignore"):  # a word with p = 1 comes for certain: log 0 is -inf, and exp of that 0
        return float(-np.expm1(draws * np.log1p(-p)).sum()) if draws else 0.0


def keep_frequent(corpus: Corpus, words: int) -> Corpus:
    """Return the text with a vocabulary of this number of words: all rarer ones become one, "<unk>". Local.

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
