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


def direct(ranks):
    """Return the two rounds of the canonical allreduce (refimpl.plain.allreduce), one node on each rank."""
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    return [[(rank, owner, owner, True) for rank, owner in pairs], [(owner, rank, owner, False) for owner, rank in pairs]]


def run(rounds, memory, add):
    """Run a schedule in one process. memory[rank][chunk]: what each rank has, changed in place.

    All of a round's messages leave at once: they carry what was there before it.
    """
    for messages in rounds:
        sent = [memory[source][chunk] for source, _, chunk, _ in messages]
        for (_, rank, chunk, adds), value in zip(messages, sent):
            memory[rank][chunk] = add(memory[rank][chunk], value) if adds else value


def prove(rounds, ranks):
    """Return chunks sent by each rank; raise AssertionError unless every rank ends with every number exactly once."""
    memory = [[Counter({rank: 1}) for _ in range(ranks)] for rank in range(ranks)]
    run(rounds, memory, lambda mine, came: mine + came)
    for rank, chunks in enumerate(memory):
        for chunk, found in enumerate(chunks):
            for other in range(ranks):
                assert found[other] == 1, f"rank {rank} ends with rank {other}'s chunk {chunk} {found[other]} times"
    return Counter(source for messages in rounds for source, _, _, _ in messages)


def main(ranks=4):
    for algorithm in (ring, direct):
        rounds = algorithm(ranks)
        sent = prove(rounds, ranks)
        order = [[str(rank) for _ in range(ranks)] for rank in range(ranks)]
        run(rounds, order, lambda mine, came: f"({came}+{mine})")
        print(f"{algorithm.__name__}({ranks}): proved; {len(rounds)} rounds; each rank sends {set(sent.values())} of "
              f"{ranks} chunks, 2 (N - 1) are needed; chunks are added as {', '.join(order[0])}")
    broken = ring(ranks)
    broken[1] = broken[1][1:]
    try:
        prove(broken, ranks)
    except AssertionError as problem:
        print(f"ring without one message: refused: {problem}")


if __name__ == "__main__":
    main()
