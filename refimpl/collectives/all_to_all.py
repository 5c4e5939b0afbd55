"""All-to-all: rank r has counts[r][o] elements for rank o. What the server's pulls and pushes are.

    rank 0 |00 01 02|          |00 10 20|     chunk r N + o goes from rank r to rank o, and nowhere else; r N + r stays.
    rank 1 |10 11 12|    ->    |01 11 21|     A pull: row numbers by counts K, then rows back by K transposed.
    rank 2 |20 21 22|          |02 12 22|     A push: row numbers and rows by counts G.

Rank r sends the sum of counts[r][o], o != r, and no schedule can send less. Two ways:

    direct     all at once, in one round
    pairwise   N - 1 rounds: in round k each rank sends to the one k + 1 further on, and is sent one message itself
"""

import numpy as np

from refimpl.collectives.prove import prove
from refimpl.collectives.schedule import Round, Schedule, Transfer


def pairwise(ranks):
    """Yield the rounds in which each rank sends to the one k further on, k = 1 to N - 1."""
    for k in range(1, ranks):
        yield Round(tuple(_transfer(rank, (rank + k) % ranks, ranks) for rank in range(ranks)))


def direct(ranks):
    """Yield the one round in which everyone sends to all."""
    yield Round(tuple(t for step in pairwise(ranks) for t in step.transfers))


def _transfer(source, destination, ranks):
    chunk = source * ranks + destination
    return Transfer(source, destination, chunk, chunk + 1)


ALL_TO_ALLS = {"direct": direct, "pairwise": pairwise}
"""name -> generator(ranks) of the rounds."""


def all_to_all(counts, algorithm: str = "direct") -> Schedule:
    """Return the proved schedule. counts: (N, N), counts[r][o] elements (or rows) of rank r for rank o. Local.

    The vector is all N * N chunks, row by row; a rank that runs it uses only its own row and column of them. Raises
    ValueError for an unknown algorithm or counts that are not square or negative.
    """
    if algorithm not in ALL_TO_ALLS:
        raise ValueError(f"no all-to-all algorithm {algorithm!r}; there are {', '.join(ALL_TO_ALLS)}")
    counts = np.asarray(counts)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or not counts.size or counts.min() < 0:
        raise ValueError(f"all-to-all wants an (N, N) table of counts, none negative; given shape {counts.shape}"
                         f"{f', least {counts.min()}' if counts.size else ''}")
    ranks = len(counts)
    source, destination = (tuple(axis.ravel().tolist()) for axis in np.indices(counts.shape))
    schedule = Schedule(f"{algorithm} all-to-all", ranks * ranks, ((),) * ranks, tuple(ALL_TO_ALLS[algorithm](ranks)),
                        "all-to-all", source, tuple(counts.ravel().tolist()), destination)
    prove(schedule)
    return schedule
