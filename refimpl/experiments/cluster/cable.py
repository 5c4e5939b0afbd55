"""What the cables are worth, measured by messages between machine 0 and the last one: latency, and share of the rate.

    python -m refimpl cluster --machines 2 --rate 200mbit -- -m refimpl.experiments.cluster.cable 200mbit

Every other rank waits until they have done. Prints one JSON object.
"""

import json
import sys
import time

import numpy as np

from refimpl.experiments.cluster.description import parse_rate
from refimpl.transport import Communicator

WHAT = "the measurement of cables"


def latency(comm: Communicator, peer: int, rounds: int = 200) -> float:
    """Return the seconds of half a round trip of one byte, median of ``rounds``. Called by this rank and ``peer``."""
    message, times = [(peer, np.zeros(1, np.uint8))], []
    for _ in range(rounds):
        begin = time.perf_counter()
        for sends in (comm.rank < peer, comm.rank > peer):
            comm.post(message if sends else [], [] if sends else message, WHAT).wait()
        times.append(time.perf_counter() - begin)
    return float(np.median(times)) / 2


def exchange(comm: Communicator, peer: int, count: int, rounds: int = 5) -> float:
    """Return the seconds in which ``count`` bytes go each way at once, best of ``rounds``. Called by both."""
    out, into = np.ones(count, np.uint8), np.zeros(count, np.uint8)
    best = float("inf")
    for _ in range(rounds):
        comm.post([(peer, out[:1])], [(peer, into[:1])], WHAT).wait()  # begin together
        begin = time.perf_counter()
        comm.post([(peer, out)], [(peer, into)], WHAT).wait()
        best = min(best, time.perf_counter() - begin)
    return best


def main(rate: int, count: int = 4 << 20) -> None:
    """Measure and print. rate: bits per second of every card.  count: bytes of a large message. Collective."""
    comm = Communicator()
    last = comm.size - 1
    if comm.rank in (0, last):
        peer = last - comm.rank
        half_trip, seconds = latency(comm, peer), exchange(comm, peer, count)
    comm.meet(WHAT)
    if comm.rank == 0:
        print(json.dumps({"latency_us": half_trip * 1e6, "exchange_ms": seconds * 1e3, "bytes": count,
                          "share_of_rate": count * 8 / rate / seconds}), flush=True)


if __name__ == "__main__":
    main(parse_rate(sys.argv[1]))
