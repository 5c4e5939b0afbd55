"""Log-uniform candidate sampler: draws the classes that represent the whole vocabulary in sampled softmax.

Class k is drawn with probability  P(k) = log((k + 2) / (k + 1)) / log(V + 1):  Zipf's law for words sorted by
frequency. The sampler works like TensorFlow's log_uniform_candidate_sampler(unique=True), which the authors use: it
draws until it has ``samples`` distinct classes. The number of tries gives the probability of each class to be among
the candidates.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from kernels.arrays import array_module
from kernels.random import uniform


@dataclass(frozen=True)
class Candidates:
    """Distinct classes, sorted: ids (samples,) int64 on the host. tries: the number of draws that found them."""

    ids: Any
    tries: int
    vocabulary: int


@lru_cache(maxsize=64)  # rows_needed and the loss use the same draw
def draw_candidates(key: int, samples: int, vocabulary: int) -> Candidates:
    """Draw ``samples`` distinct classes from sequence ``key``; the same key gives the same classes. Local.

    Try t gives class floor((V + 1)**u_t) - 1, with u_t = element t of ``uniform(key)``. Raises ValueError if samples >
    V.
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
    tries = int(np.searchsorted(found, samples)) + 1  # up to the try that found the last class
    ids = np.sort(classes[:tries][first[:tries]])
    ids.flags.writeable = False  # the cache gives this array to all callers with this key
    return Candidates(ids, tries, vocabulary)


def is_first(classes, vocabulary):
    """Return True at the first occurrence of each class: (n,) bool."""
    place = np.empty(vocabulary, np.int64)  # read only where it is written
    order = np.arange(len(classes))
    place[classes[::-1]] = order[::-1]  # for repeated indices the last assignment counts: the earliest place
    return place[classes] == order


def log_expected_count(classes, tries: int, vocabulary: int):
    """Return log E[class is among the candidates] = log(1 - (1 - P(class))**tries): float64, shape of ``classes``."""
    xp = array_module(classes)
    p = xp.log1p(1.0 / (classes.astype(xp.float64) + 1.0)) / np.log(vocabulary + 1.0)
    return xp.log(-xp.expm1(tries * xp.log1p(-p)))
