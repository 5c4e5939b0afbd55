"""Checks of lesson 8: attention, the largest α of the paper's translator, and the most that the hybrid gains."""

import numpy as np

from refimpl.notebook.exercises import answered, exercise, right, wrong

DENSE, SPARSE, ROWS, SENTENCES, WORDS = 94_070_785, 74_850_304, 36_548, 128, 50


@exercise
def check_attend(attend):
    """Check a function (scores, vectors, length) -> the mean of the first vectors, weighted by their scores' softmax.
    """
    vectors = np.array([[8.0, 1.0], [2.0, 5.0], [3.0, 4.0]])
    cases = ([1.0, 1.0, 0.0], 3), ([1.0, 1.0, 0.0], 2), ([0.5, -1.0, 2.0], 1), ([2000.0, 1999.0, 0.0], 3)
    for scores, length in cases:
        with np.errstate(all="ignore"):
            given = np.asarray(answered(attend(np.array(scores), vectors, length)))
        powers = np.exp(np.array(scores) - max(scores))
        inside = powers * (np.arange(3) < length)
        where = f"scores {scores}, {length} words"
        if given.shape != (2,):
            return wrong(f"a context has as many numbers as a vector, 2; yours has the shape {given.shape}")
        if not np.isfinite(given).all():
            return wrong(f"{where}: exp of a large score is infinite; subtract the largest score from all of them")
        if np.allclose(given, inside @ vectors / inside.sum()):
            continue
        if np.allclose(given, powers @ vectors / powers.sum()):
            return wrong(f"{where}: a word that the sentence does not have must have the weight 0")
        return wrong(f"{where}: you say {given.round(3)}; divide the exponentials by their sum, so that the weights of "
                     "the words add up to 1")
    return right("equal scores would give the mean of all words: that is where a training begins.")


@exercise
def check_most(alpha):
    """Check the largest part of all elements that a worker of the paper's translator can touch."""
    rows = SENTENCES * WORDS / ROWS  # the part of one table, without the start symbol
    if abs(alpha - (DENSE + SPARSE * rows) / (DENSE + SPARSE)) < 1e-3:
        return right("0.634: all dense elements, 0.557, and 0.078 for the rows of the tables.")
    if abs(alpha - rows) < 1e-3:
        return wrong("that is α of one table; which part of all elements, with the dense ones, is touched?")
    if abs(alpha - 2 * SPARSE * rows / (DENSE + SPARSE)) < 1e-3 or alpha < 0.5:
        return wrong("dense elements are touched, too: all dense elements, in every step")
    return wrong("each table has 36,548 rows, and 128 sentences x 50 words are touched, and the start symbol")


@exercise
def check_gain(gain):
    """Check a function (dense, sparse, alpha, ranks) -> values moved by the best allreduce over those of the hybrid."""
    for dense, sparse, alpha, ranks in ((10, 1000, 0.01, 8), (1000, 10, 0.5, 2), (10, 1000, 0.1, 48), (100, 100, 1, 4)):
        given = answered(gain(dense, sparse, alpha, ranks))
        ways = {"rows by allgather": alpha * ranks / 2, "tables sent whole": 1}  # a dense element costs 1
        gains = {way: (dense + cost * sparse) / (dense + alpha * sparse) for way, cost in ways.items()}
        where = f"{dense} dense and {sparse} sparse elements, α = {alpha}, {ranks} ranks: you say {given:.4g}"
        if abs(given - min(gains.values())) < 1e-6:
            continue
        for way, value in gains.items():
            if abs(given - value) < 1e-6:
                return wrong(f"{where}: that is {way}, but the other way moves less here")
        if abs(given - min(ways.values()) / alpha) < 1e-6:
            return wrong(f"{where}: dense elements are moved, too, as many by both")
        return wrong(f"{where}; a dense element costs 4 (N - 1) / N in and out; what does a sparse one cost each way?")
    return right("it is never more than (dense + sparse) / dense: what is dense costs the same with both.")
