"""Checks of lesson 1, Adding up on many machines."""

from refimpl.collectives import Round, ScheduleError, Sum, Transfer, complaint, prove, schedule_of
from refimpl.notebook.exercises import NotAnswered, exercise, number, right, wrong

RANKS = 4

check_bytes = number(2 * 7 * 64 / 8, "14 messages of 8 MiB. However many ranks there are, it stays below 128 MiB.", {
    7 * 64 / 8: "that is the first half alone: the finished chunks must go round the ring, too",
    128: "close: this is the limit for very many ranks. A rank need not get the chunk that it already has",
}, "how many rounds are there, and how large is the one chunk that a rank sends in each?")
"""MiB that a rank sends in a ring allreduce of 64 MiB over 8 ranks."""


@exercise
def check_counted_twice(rounds):
    """Check rounds, changed from those of a ring over 4 ranks, in which something is counted more than once."""
    said = complaint(schedule_of(rounds, RANKS, RANKS))
    if "counts more than once" in said:
        return right(f"the proof says: {said}")
    if not said:
        return wrong("the proof has nothing against these rounds: they add up each microbatch exactly once")
    return wrong(f"they are broken, but in another way: {said}")


def to_the_right(chunks, add: bool = False) -> Round:
    """Return the round in which rank r sends chunk chunks[r] to rank r + 1, which adds it to its own, or stores it.

    Local. Raises NotAnswered while the chunks are ``...``.
    """
    if chunks is ... or any(chunk is ... for chunk in chunks):
        raise NotAnswered
    ranks = len(chunks)
    right_of = [(rank + 1) % ranks for rank in range(ranks)]
    slot = 1 if add else 0
    return Round(
        tuple(Transfer(rank, right_of[rank], chunk, chunk + 1, 0, slot) for rank, chunk in enumerate(chunks)),
        tuple(Sum(right_of[rank], 0, 1, chunk, chunk + 1) for rank, chunk in enumerate(chunks)) if add else ())


@exercise
def check_my_ring(my_ring):
    """Check a generator of the rounds of a ring allreduce, for any number of ranks: proved, and at the lower bound."""
    for ranks in range(2, 9):
        schedule = schedule_of(my_ring(ranks), ranks, ranks, f"my ring over {ranks} ranks")
        try:
            proof = prove(schedule)
        except ScheduleError as problem:
            return wrong(f"the proof says: {problem}. In the second half a rank begins with the chunk that is complete "
                         "there, rank + 1")
        if max(proof.chunks_sent) > proof.bound:
            return wrong(f"over {ranks} ranks the sums are right, but a rank sends {max(proof.chunks_sent)} chunks, "
                         f"and {proof.bound:g} are enough: is the number of rounds right?")
    return right("proved for 2 to 8 ranks, and no rank sends more than the lower bound")
