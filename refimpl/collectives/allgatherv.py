"""Allgatherv: rank r contributes counts[r] elements, and every rank ends with all of them. For row gradients.

Chunk r is rank r's. Three ways, each (N - 1) / N * n received by a rank where the counts are even:

    direct   everyone to all in one round: rank r sends (N - 1) counts[r]
    ring     N - 1 rounds: each passes on to its right what it was sent last. All links carry nearly the same, whoever
             has most: rank r sends all but the chunk of rank r + 1
    bruck    ceil(log2 N) rounds: each is sent all that the rank 2**k further on has gathered, then twice as much

        bruck    rank 0: |0....|  |01...|  |0123.|  |01234|      (Bruck, Ho, Kipnis, Upfal, Weathersby 1997)
                 rank 3: |...3.|  |...34|  |01.34|  |01234|
"""

from refimpl.collectives.prove import prove
from refimpl.collectives.schedule import Round, Schedule, Transfer


def direct(ranks):
    """Yield the round in which everyone sends its chunk to all."""
    yield Round(tuple(Transfer(rank, other, rank, rank + 1)
                      for rank in range(ranks) for other in range(ranks) if other != rank))


def ring(ranks):
    """Yield the rounds in which each rank passes on to its right what it was sent last, at first its own chunk."""
    for k in range(ranks - 1):
        yield Round(tuple(Transfer(rank, (rank + 1) % ranks, (rank - k) % ranks, (rank - k) % ranks + 1)
                          for rank in range(ranks)))


def bruck(ranks):
    """Yield the rounds in which a rank that has the chunks of ``have`` ranks from its own on is sent the next."""
    have = 1
    while have < ranks:
        more = min(have, ranks - have)
        yield Round(tuple(transfer for rank in range(ranks)
                          for transfer in _wrapped((rank + have) % ranks, rank, more, ranks)))
        have += more


def _wrapped(source, destination, count, ranks):
    """Return the transfers of ``count`` chunks from the source's own on; behind the last chunk comes chunk 0."""
    stop = min(source + count, ranks)
    yield Transfer(source, destination, source, stop)
    if source + count > ranks:
        yield Transfer(source, destination, 0, source + count - ranks)


ALLGATHERVS = {"direct": direct, "ring": ring, "bruck": bruck}
"""name -> generator(ranks) of the rounds."""


def allgatherv(counts, algorithm: str = "direct") -> Schedule:
    """Return the proved schedule, of kind "allgather". counts[r]: elements (or rows) of rank r. Local.

    Raises ValueError for an unknown algorithm or a negative count.
    """
    if algorithm not in ALLGATHERVS:
        raise ValueError(f"no allgatherv algorithm {algorithm!r}; there are {', '.join(ALLGATHERVS)}")
    sizes = tuple(int(count) for count in counts)
    if not sizes or min(sizes) < 0:
        raise ValueError(f"allgatherv wants the number of elements of each rank, none negative; given {list(sizes)}")
    ranks = len(sizes)
    schedule = Schedule(f"{algorithm} allgatherv", ranks, ((),) * ranks, tuple(ALLGATHERVS[algorithm](ranks)),
                        "allgather", tuple(range(ranks)), sizes)
    prove(schedule)
    return schedule
