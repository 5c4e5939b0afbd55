"""``synthetic[:VOCABULARY]``: Zipf-distributed text of any size, from a known Markov chain that a model can learn.

Think of the words 0 … V-1 as the nodes of a heap: word w has the children 2w+1 and 2w+2, and octave k is the level of
the words 2^k - 1 … 2^(k+1) - 2.  Zipf's law in steps gives every full octave the same probability:

    p(w) = 2^-k / W,  k = floor(log2(w + 1)),  W = Σ_k 2^-k · (words in octave k)

The text is a Markov chain: with probability 1/4 the next word is drawn from p. Otherwise it is one of the two children
of the last word, with equal chance (word 0 if the child is not below V).  p is the chain's stationary distribution, so
every token has the law p, and yet the last word says much about the next.  The computation uses integers only, so the
text is the same on every machine. It needs no table of the vocabulary's size.
"""

import numpy as np

from kernels.random import key_of, random_bits
from models.data.contents import Corpus
from models.data.files import DataError

CHAIN = 64  # tokens of a chain; chains are independent, so all advance together
LARGEST = 2**61  # then 2w + 2 fits in 62 bits


def load_synthetic(vocabulary: str = "10000", tokens: int = 1_000_000, heldout_tokens: int = 50_000,
                   seed: int = 0) -> Corpus:
    """Return ``tokens`` + ``heldout_tokens`` words of the language of ``vocabulary`` words. Local. Raises DataError."""
    try:
        size = int(vocabulary)
    except ValueError:
        raise DataError(f"synthetic:{vocabulary}: not a number of words; synthetic:VOCABULARY") from None
    if not 1 <= size <= LARGEST:
        raise DataError(f"synthetic:{vocabulary}: the vocabulary must have 1 to 2^61 words")
    train, heldout = (generate(size, count, key_of(seed, "synthetic", part))
                      for part, count in (("train", tokens), ("heldout", heldout_tokens)))
    return Corpus(f"synthetic:{size}", train, heldout, size)


def octave_sizes(vocabulary: int) -> list[int]:
    """Return the number of words in each octave: 1, 2, 4, …, the rest."""
    return [min(2**k, vocabulary - 2**k + 1) for k in range(vocabulary.bit_length())]


def generate(vocabulary: int, tokens: int, key: int) -> np.ndarray:
    """Return (tokens,) int32, or int64 for more than 2^31 words. Token i depends only on key and i. Local."""
    chains = -(-tokens // CHAIN)
    choice = random_bits(key_of(key, "choice"), chains * CHAIN)
    detail = random_bits(key_of(key, "detail"), chains * CHAIN)
    drawn = zipf(vocabulary, choice, detail).reshape(chains, CHAIN)
    is_child = (choice >> np.uint64(62) != 0).reshape(chains, CHAIN)  # 3 of 4
    side = (detail & np.uint64(1)).reshape(chains, CHAIN)
    words = np.empty((chains, CHAIN), np.int32 if vocabulary <= 2**31 else np.int64)
    words[:, :1] = word = drawn[:, :1]
    for t in range(1, CHAIN):
        child = np.uint64(2) * word + side[:, t : t + 1] + np.uint64(1)
        child[child >= np.uint64(vocabulary)] = 0
        words[:, t : t + 1] = word = np.where(is_child[:, t : t + 1], child, drawn[:, t : t + 1])
    return words.reshape(-1)[:tokens].copy()


def zipf(vocabulary: int, choice: np.ndarray, detail: np.ndarray) -> np.ndarray:
    """Return words drawn from p: the lower 62 bits of ``choice`` give the octave, ``detail`` the word in it. uint64."""
    sizes = octave_sizes(vocabulary)
    unit = 2 ** (len(sizes) - 1)  # of an octave's weight: (k + 1) · unit is the weight of octaves 0 … k
    weight = unit * (len(sizes) - 1) + sizes[-1]
    ends = np.array([2**62 * (k + 1) * unit // weight for k in range(len(sizes) - 1)], np.uint64)
    octave = np.searchsorted(ends, choice & np.uint64(2**62 - 1), side="right")
    first = np.array([2**k - 1 for k in range(len(sizes))], np.uint64)
    return first[octave] + detail % np.array(sizes, np.uint64)[octave]
