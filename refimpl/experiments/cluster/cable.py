"""What the cables are worth, measured with MPI between machine 0 and the last one: latency, and share of the rate.

    python -m refimpl cluster --machines 2 --rate 200mbit -- -m refimpl.experiments.cluster.cable 200mbit

Every other rank waits at a barrier. Prints one JSON object.
"""

import json
import sys
import time

import numpy as np
from mpi4py import MPI

from refimpl.experiments.cluster.description import parse_rate


def latency(comm, peer: int, rounds: int = 200) -> float:
    """Return the seconds of half a round trip of one byte, median of ``rounds``. Called by this rank and ``peer``."""
    message = np.zeros(1, np.uint8)
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        if comm.rank < peer:
            comm.Send(message, peer)
            comm.Recv(message, peer)
        else:
            comm.Recv(message, peer)
            comm.Send(message, peer)
        times.append(time.perf_counter() - begin)
    return float(np.median(times)) / 2


def exchange(comm, peer: int, count: int, rounds: int = 5) -> float:
    """Return the seconds in which ``count`` bytes go each way at once, best of ``rounds``. Called by both."""
    out, into = np.ones(count, np.uint8), np.zeros(count, np.uint8)
    best = float("inf")
    for _ in range(rounds):
        comm.Sendrecv(np.zeros(1, np.uint8), peer, recvbuf=np.zeros(1, np.uint8), source=peer)  # begin together
        begin = time.perf_counter()
        comm.Sendrecv(out, peer, recvbuf=into, source=peer)
        best = min(best, time.perf_counter() - begin)
    return best


def main(rate: int, comm=MPI.COMM_WORLD, count: int = 4 << 20) -> None:
    last = comm.size - 1
    if comm.rank in (0, last):
        peer = last - comm.rank
        half_trip, seconds = latency(comm, peer), exchange(comm, peer, count)
    comm.Barrier()
    if comm.rank == 0:
        print(json.dumps({"latency_us": half_trip * 1e6, "exchange_ms": seconds * 1e3, "bytes": count,
                          "share_of_rate": count * 8 / rate / seconds}), flush=True)


if __name__ == "__main__":
    main(parse_rate(sys.argv[1]))
