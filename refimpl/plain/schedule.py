"""An allreduce as data: rounds of (source, destination, chunk, adds), which are proved before any rank runs them.

    ring(3) = [[(0, 1, 0, True), (1, 2, 1, True), (2, 0, 2, True)], …]      round 0: each rank sends one chunk to the
                                                                            right, and who gets it adds it to its own

What is only data can be printed, counted, drawn, simulated, and run on symbols: ``prove`` writes down for each rank and
chunk which ranks' numbers are in it. At the end all must be in, each once.

    python -m refimpl.plain.schedule
"""

from collections import Counter


def ring(ranks):
    """Return the rounds of the ring allreduce (refimpl.plain.ring) on ``ranks`` ranks, as many chunks."""
    rounds = [[(r, (r + 1) % ranks, (r - step) % ranks, True) for r in range(ranks)] for step in range(ranks - 1)]
    return rounds + [[(r, (r + 1) % ranks, (r + 1 - step) % ranks, False) for r in range(ranks)]
                     for step in range(ranks - 1)]


def halving_doubling(ranks):
    """Return the rounds of an allreduce in tree order, for a power of two of ranks, one microbatch each.

    Ranks 1 apart trade halves, then ranks 2 apart halves of those, …: until rank r has chunk r whole. Then all back.
    """
    pairs = [(rank, chunk) for rank in range(ranks) for chunk in range(ranks)]
    apart = [2**k for k in range(ranks.bit_length() - 1)]
    rounds = [[(rank, rank ^ d, chunk, True) for rank, chunk in pairs if (rank ^ chunk) % (2 * d) == d] for d in apart]
    return rounds + [[(rank, rank ^ d, chunk, False) for rank, chunk in pairs if (rank ^ chunk) % (2 * d) == 0]
                     for d in reversed(apart)]


def run(rounds, memory, add):
    """Run a schedule in one process. memory[rank][chunk]: what each rank has, changed in place.

    All of a round's messages leave at once: they carry what was there before it.
    """
    for messages in rounds:
        sent = [memory[source][chunk] for source, _, chunk, _ in messages]
        for (_, rank, chunk, adds), value in zip(messages, sent):
            memory[rank][chunk] = add(memory[rank][chunk], value) if adds else value


def prove(rounds, ranks):
    """Return chunks sent by each rank; raise ValueError unless every rank ends with every number exactly once."""
    memory = [[Counter([rank]) for _ in range(ranks)] for rank in range(ranks)]
    run(rounds, memory, lambda mine, came: mine + came)
    for rank, chunks in enumerate(memory):
        for chunk, found in enumerate(chunks):
            for other in range(ranks):
                if found[other] != 1:
                    raise ValueError(f"rank {rank} ends with rank {other}'s chunk {chunk} {found[other]} times")
    return Counter(source for messages in rounds for source, _, _, _ in messages)


def orders(rounds, ranks):
    """Return for each chunk how rank 0's sum was added up, as text: (a+b) is (b+a), but ((a+b)+c) not (a+(b+c))."""
    memory = [[str(rank) for _ in range(ranks)] for rank in range(ranks)]
    run(rounds, memory, lambda *two: f"({'+'.join(sorted(two))})")
    return memory[0]


def main(ranks=4):
    """Prove two schedules; show in which order they add. Then lose a message."""
    for algorithm in (ring, halving_doubling):
        rounds = algorithm(ranks)
        sent = set(prove(rounds, ranks).values())
        print(f"{algorithm.__name__}({ranks}): proved; {len(rounds)} rounds; each rank sends {sent} of {ranks} chunks; "
              f"2 (N - 1) are needed; chunks are added as {', '.join(sorted(set(orders(rounds, ranks))))}")
    broken = ring(ranks)
    del broken[1][0]
    try:
        prove(broken, ranks)
    except ValueError as problem:
        print(f"ring without one message: refused: {problem}")


if __name__ == "__main__":
    main()
