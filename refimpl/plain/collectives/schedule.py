"""An allreduce as data: rounds of messages (source, destination, chunk, adds), proved before any rank runs them.

    ring(3) = [[(0, 1, 0, True), (1, 2, 1, True), (2, 0, 2, True)], …]      round 0: each rank sends one chunk to its
                                                                            right, where it is added to the rank's own

A schedule can be printed, counted, drawn, simulated, and run on symbols. ``prove`` runs it on symbols: for each rank
and chunk it counts how often each rank's contribution is in the sum. At the end each must be in it exactly once.

    python -m refimpl.plain.collectives.schedule
"""

from collections import Counter


def ring(ranks):
    """Return the rounds of the ring allreduce (``ring.py``) on ``ranks`` ranks, with one chunk for each rank."""
    rounds = [[(r, (r + 1) % ranks, (r - i) % ranks, True) for r in range(ranks)] for i in range(ranks - 1)]
    return rounds + [[(r, (r + 1) % ranks, (r + 1 - i) % ranks, False) for r in range(ranks)] for i in range(ranks - 1)]


def halving_doubling(ranks):
    """Return the rounds of halving-doubling. ranks: a power of two. It adds in tree order (``adding.tree``).

    Ranks at distance 1 exchange halves of the vector. Then ranks at distance 2 exchange halves of these halves, and so
    on, until rank r has the sum of chunk r. In the second half of the rounds the sums go back in the opposite order.

    Write the numbers of ranks and chunks in binary. In the round of distance d = 2**k the partner of a rank is
    rank ^ d: only bit k of the two numbers differs. At this point a rank still has the chunks whose lowest k bits are
    equal to its own. It sends the chunks whose bit k differs from its own: (rank ^ chunk) % (2 * d) == d. On the way
    back it sends the chunks whose lowest k + 1 bits are equal to its own: (rank ^ chunk) % (2 * d) == 0.
    """
    pairs = [(rank, chunk) for rank in range(ranks) for chunk in range(ranks)]
    apart = [2**k for k in range(ranks.bit_length() - 1)]  # distances 1, 2, 4, …, ranks / 2
    rounds = [[(rank, rank ^ d, chunk, True) for rank, chunk in pairs if (rank ^ chunk) % (2 * d) == d] for d in apart]
    return rounds + [[(rank, rank ^ d, chunk, False) for rank, chunk in pairs if (rank ^ chunk) % (2 * d) == 0]
                     for d in reversed(apart)]


def run(rounds, memory, add):
    """Run a schedule in one process. memory[rank][chunk]: the value that each rank has, changed in place.

    All messages of a round leave together, so they carry the values from before the round.
    """
    for messages in rounds:
        sent = [memory[source][chunk] for source, _, chunk, _ in messages]
        for (_, rank, chunk, adds), value in zip(messages, sent):
            memory[rank][chunk] = add(memory[rank][chunk], value) if adds else value


def prove(rounds, ranks):
    """Return {rank: chunks sent}. Raise ValueError unless each rank ends with each contribution exactly once."""
    memory = [[Counter([rank]) for _ in range(ranks)] for rank in range(ranks)]  # each rank's own contribution, once
    run(rounds, memory, lambda mine, came: mine + came)
    for rank, chunks in enumerate(memory):
        for chunk, found in enumerate(chunks):
            for other in range(ranks):
                if found[other] != 1:
                    raise ValueError(f"rank {rank} counted chunk {chunk} of rank {other} {found[other]} times")
    return Counter(source for messages in rounds for source, _, _, _ in messages)


def orders(rounds, ranks):
    """Return for each chunk how rank 0's sum was added up, as text. (a+b) = (b+a), but ((a+b)+c) ≠ (a+(b+c))."""
    memory = [[str(rank) for _ in range(ranks)] for rank in range(ranks)]
    run(rounds, memory, lambda *two: f"({'+'.join(sorted(two))})")
    return memory[0]


def main(ranks=4):
    """Prove two schedules and show in which order they add. Then drop a message: the proof fails."""
    for algorithm in (ring, halving_doubling):
        rounds = algorithm(ranks)
        sent = max(prove(rounds, ranks).values())
        print(f"{algorithm.__name__}({ranks}): proved; {len(rounds)} rounds; the busiest rank sends {sent} chunks; the "
              f"least is 2 (N - 1); chunks are added as {', '.join(sorted(set(orders(rounds, ranks))))}")
    broken = ring(ranks)
    del broken[1][0]
    try:
        prove(broken, ranks)
    except ValueError as problem:
        print(f"ring without one message: refused: {problem}")


if __name__ == "__main__":
    main()
