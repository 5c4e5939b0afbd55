"""Measure the network between the ranks in about half a second; cards send and receive at once, as in an allreduce.

    Machines A B C D: in a round the first ranks of A and B exchange messages, and those of C and D; in the next round A
    and C, B and D; until every pair has. Small messages give the latency, large ones the speed of each link; the
    fastest of a card's links gives the speed of the card. If there are more machines, each sends to the next one in a
    ring, as ranks do within a machine.

Messages grow until they take long enough to be timed. All ranks know all times, so all choose the same size, and get
the same Network.
"""

import json
import time

import numpy as np

from refimpl.collectives.simulation.network import Network, load_network

PHASE = "calibration"
_TINY, _FIRST, _MOST = 8, 1 << 15, 1 << 25  # bytes of a message: for latency; at first; at most
_BUCKET = 1 << 17  # bytes of a burst that a rate-limited card may have saved while it was idle
_MOST_REST = 0.05  # at most so many seconds of rest, in which a card saves a burst again
_PINGS, _BURST = 15, 32
_IDLE = 5e9  # bytes/s of memory, if no messages cross it
_IN_PAIRS = 12  # links are measured one by one up to so many machines
_ADDED = 1 << 22  # bytes of the arrays whose sum is timed: more than fits into the nearest caches


def calibrate(comm, seconds: float = 0.5) -> Network:
    """Return the measured network of the communicator's ranks and machines, the same on every rank. Collective.

    seconds: about how long it takes with few machines on a fast network. If 32 KiB take longer than this, it takes a
    few times as long.
    """
    across = tuple(ranks[0] for ranks in comm.machines)
    latency = _latency(comm, (across,))
    in_pairs = len(across) <= _IN_PAIRS
    links, burst = _rates(comm, (across,), pairs_of(across) if in_pairs else [(across,), (across[::-1],)],
                          seconds / 3)
    out, into = links.max(axis=1), links.max(axis=0)
    latency_within = _latency(comm, comm.machines)
    carried = _rates(comm, comm.machines, [comm.machines], seconds / 8)[0].max(axis=1)
    if len(across) == 1:  # one machine does not use its card, so any number will do
        latency, burst = latency_within, 0.0
        out = into = np.full(comm.size, _IDLE)
    reduction = float(np.median(comm.share(np.array([_reduction(seconds / 20)]), PHASE)))
    busiest = (across,) if len(across) > 1 else comm.machines
    return Network(
        comm.machines, latency, tuple(out[list(across)].tolist()), tuple(into[list(across)].tolist()), latency_within,
        tuple(sum(carried[list(ranks)].tolist()) if len(ranks) > 1 else _IDLE for ranks in comm.machines), reduction,
        _overhead(comm, busiest, max(latency, latency_within)), burst,
        tuple(map(tuple, links[np.ix_(across, across)].tolist())) if in_pairs and len(across) > 1 else (),
    )


def pairs_of(ranks) -> list[tuple[tuple[int, int], ...]]:
    """Return rounds of pairs, in which each rank meets each other once; with an odd number one rank rests in each."""
    seats, rounds = [*ranks, *[None] * (len(ranks) % 2)], []
    for _ in seats[1:]:
        met = zip(seats[:len(seats) // 2], reversed(seats))
        rounds.append(tuple(pair for pair in met if None not in pair))
        seats.insert(1, seats.pop())  # all but the first move by one seat
    return rounds


def network_of(comm, path=None, write=None, seconds: float = 0.5) -> Network:
    """Return the network in the file ``path`` for these machines. If there is none, measure and write it. Collective.

    path: a JSON file, read and written by rank 0; None: always measure.  write(path, value): writes JSON completely or
    not at all (``training.run.files.write_json``).  A file for other machines is replaced.
    """
    text = ""
    if path is not None and comm.rank == 0:
        try:
            text = json.dumps(load_network(path, comm.machines).to_dict())
        except (OSError, ValueError):
            pass  # none yet, or of another network
    if text := comm.share_text(text)[0]:
        return Network.from_dict(json.loads(text))
    network = calibrate(comm, seconds)
    if path is not None:
        comm.together(lambda: write(path, network.to_dict()) if comm.rank == 0 else None)
    return network


def _times(comm, rings, size: int, messages: int = 1, repeats: int = 1, rest: float = 0):
    """Return (ranks, repeats) seconds in which each rank sent its messages and received as many. Collective.

    They have ``size`` bytes and go to the next rank in its ring; inf for ranks that are alone in their ring.
    rest: seconds of idleness before.
    """
    mine = np.full(repeats, np.inf)
    ring = next((ring for ring in rings if comm.rank in ring), ())
    if len(ring) > 1:
        at = ring.index(comm.rank)
        following, preceding = ring[(at + 1) % len(ring)], ring[at - 1]
        owners = {"": size}
        out, into = np.zeros(size, np.uint8), np.zeros((messages, size), np.uint8)
        sends = [(following, out, owners)] * messages
        receives = [(preceding, room, owners) for room in into]
        for repeat in range(repeats):
            time.sleep(rest)
            one = {"": 1}
            comm.exchange([(following, out[:1], one)], [(preceding, into[0, :1], one)], PHASE, "control")  # ready
            begin = time.perf_counter()
            comm.exchange(sends, receives, PHASE, "control", packed=False)
            mine[repeat] = time.perf_counter() - begin
    return comm.share(mine, PHASE)


def _slowest(times) -> float:
    """Return the longest time of all ranks that have a partner; 0 if none has."""
    return float(times[np.isfinite(times)].max(initial=0))


def _latency(comm, rings) -> float:
    """Return the typical seconds of a tiny message. Collective."""
    _times(comm, rings, _TINY)  # connections are made
    times = np.median(_times(comm, rings, _TINY, repeats=_PINGS), axis=1)
    return float(np.median(times[np.isfinite(times)])) if np.isfinite(times).any() else 0.0


def _rates(comm, rings, rounds, seconds):
    """Return (links, burst): (ranks, ranks) bytes/s from a rank to its next in a ring of any round, 0 elsewhere.

        rate = (3 n - n) / (time of 3 n - time of n)        latency and bursts, which are in both times, cancel
        burst = n - rate * time of n                        see ``_burst``; the latency is small beside it

    rings: by which the size is chosen.  rounds: rings that send at once, for each round. Collective.
    """
    # the best of a few: one late rank could end the growth while a card's burst still hides its rate
    size, slowest = _FIRST, _slowest(_times(comm, rings, _FIRST, repeats=3).min(axis=1))
    while 0 < slowest < seconds / 16 and size < _MOST:
        size *= 2
        slowest = _slowest(_times(comm, rings, size, repeats=2).min(axis=1))
    rest = min(2 * _BUCKET * slowest / size, _MOST_REST)
    repeats = 1 if slowest > seconds / 4 else 2
    links, ahead = np.zeros((comm.size, comm.size)), []
    for together in rounds:
        short, long = (_times(comm, together, n, 1, repeats, rest).min(axis=1) for n in (size, 3 * size))
        for ring in together:
            following = np.roll(ring, -1)
            # a rank may also have waited for its other partner, so the shorter of the times at both ends counts
            short_took, long_took = (np.minimum(t[list(ring)], t[following]) for t in (short, long))
            if len(ring) > 1:
                rate = 2 * size / np.maximum(long_took - short_took, long_took / 3)
                links[list(ring), following] = rate
                ahead += (size - rate * short_took).tolist()
    return links, _burst(size, float(np.median(ahead or [0.0])))


def _burst(size, ahead) -> float:
    """Return how many of ``size`` bytes a card sent as a burst, if they took the time of ``ahead`` fewer bytes. Local.

    Less than an eighth cannot be distinguished from noise, and counts as 0. The result is at most half.
    """
    return 0.0 if ahead < size / 8 else min(ahead, size / 2)


def _overhead(comm, rings, latency) -> float:
    """Return the seconds that each of many tiny messages takes beyond the latency of the first. Collective."""
    took = _slowest(_times(comm, rings, _TINY, _BURST, 3).min(axis=1))
    return max(0.0, took - latency) / (2 * _BURST)


def _reduction(seconds) -> float:
    """Return the bytes/s at which this rank adds up float32 arrays. Local."""
    into, other = np.zeros(_ADDED // 4, np.float32), np.ones(_ADDED // 4, np.float32)
    np.add(into, other, out=into)
    took, begin = [], time.perf_counter()
    while not took or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        np.add(into, other, out=into)
        took.append(time.perf_counter() - start)
    return _ADDED / float(np.median(took))
