"""Log-uniform candidate sampler: which classes stand in for the whole vocabulary in sampled softmax.

Class k is drawn with probability  P(k) = log((k + 2) / (k + 1)) / log(V + 1):  Zipf's law for words sorted by
frequency. As TensorFlow's log_uniform_candidate_sampler(unique=True), which the authors use: draw until ``samples``
distinct classes have come; the number of tries tells how often each class is expected among the candidates.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from kernels.arrays import array_module
from kernels.random import uniform


@dataclass(frozen=True)
class Candidates:
    """Distinct classes, sorted: ids (samples,) int64 on the host; tries: draws it took to find so many."""

    ids: Any
    tries: int
    vocabulary: int


@lru_cache(maxsize=64)  # rows_needed and the loss ask for the same draw
def draw_candidates(key: int, samples: int, vocabulary: int) -> Candidates:
    """Draw ``samples`` distinct classes from sequence ``key``: the same ones whoever asks. Local.

    Try t is class floor((V + 1)**u_t) - 1, u_t element t of ``uniform(key)``. Raises ValueError if samples > V.
    """
    if not 0 < samples <= vocabulary:
        raise ValueError(f"{samples} distinct candidates from a vocabulary of {vocabulary}: ask for 1 to {vocabulary}")
    tries = 2 * samples
    while True:
        classes = np.floor(np.exp(uniform(key, tries) * np.log(vocabulary + 1.0))).astype(np.int64) - 1
        np.minimum(classes, vocabulary - 1, out=classes)
        first = is_first(classes, vocabulary)
        found = np.cumsum(first)
        if found[-1] >= samples:
            break
        tries *= 2
    tries = int(np.searchsorted(found, samples)) + 1  # up to the try that found the last class wanted
    ids = np.sort(classes[:tries][first[:tries]])
    ids.flags.writeable = False  # it is shared by everyone who asks for this key
    return Candidates(ids, tries, vocabulary)


def is_first(classes, vocabulary):
    """Return True where a class comes for the first time: (n,) bool."""
    place = np.empty(vocabulary, np.int64)  # read only where it is written
    order = np.arange(len(classes))
    place[classes[::-1]] = order[::-1]  # of repeated indices the last assignment stays: the earliest place
    return place[classes] == order


def log_expected_count(classes, tries: int, vocabulary: int):
    """Return log E[class is among the candidates] = log(1 - (1 - P(class))**tries): float64, shape of ``classes``."""
    xp = array_module(classes)
    p = xp.log1p(1.0 / (classes.astype(xp.float64) + 1.0)) / np.log(vocabulary + 1.0)
    return xp.log(-xp.expm1(tries * xp.log1p(-p)))
