"""Measure the network that the ranks are on, in about half a second: messages round rings, all cards at once.

    machines A B C: each one's first rank sends to the next machine's and is sent the last one's: every card is busy
    both ways, as in an allreduce. Small messages give the latency, large ones the speed; the same within each machine.

Message sizes grow until they take long enough to be timed. All ranks see all times, so all choose the same size, and
end with the same Network.
"""

import json
import time

import numpy as np

from refimpl.collectives.simulation.network import Network, load_network

PHASE = "calibration"
_TINY, _FIRST, _MOST = 8, 1 << 15, 1 << 25  # bytes of a message: for latency; to begin with; at most
_BUCKET = 1 << 17  # bytes that a rate-limited card may have saved up while idle, and lets through at once
_MOST_REST = 0.05  # seconds at most that a card is given to save up again
_PINGS, _BURST = 15, 32
_IDLE = 5e9  # bytes/s of a memory that no messages cross
_ADDED = 1 << 22  # bytes of the arrays added up to time a sum: more than the nearest caches hold


def calibrate(comm, seconds: float = 0.5) -> Network:
    """Return what was measured of the communicator's ranks and machines, the same on every rank. Collective.

    seconds: about how long it may take on a fast network; on one so slow that 32 KiB take longer, a few times that.
    One card that is slower than the rest is known from four machines on; with fewer its neighbours look as slow.
    """
    across = tuple(ranks[0] for ranks in comm.machines)
    latency = _latency(comm, (across,))
    out, into, burst = _rates(comm, (across,), 2 if len(across) > 3 else 1, seconds / 3)
    latency_within = _latency(comm, comm.machines)
    carried, *_ = _rates(comm, comm.machines, 1, seconds / 8)
    if len(across) == 1:  # one machine has no use for a card: any number does
        latency, burst = latency_within, 0.0
        out = into = np.full(comm.size, _IDLE)
    reduction = float(np.median(comm.share(np.array([_reduction(seconds / 20)]), PHASE)))
    busiest = (across,) if len(across) > 1 else comm.machines
    return Network(
        comm.machines, latency, tuple(out[list(across)].tolist()), tuple(into[list(across)].tolist()), latency_within,
        tuple(sum(carried[list(ranks)].tolist()) if len(ranks) > 1 else _IDLE for ranks in comm.machines), reduction,
        _overhead(comm, busiest, max(latency, latency_within)), burst,
    )


def network_of(comm, path=None, write=None, seconds: float = 0.5) -> Network:
    """Return the network in ``path`` where it is of these machines, else measure it and keep it there. Collective.

    path: a JSON file, or None to measure always; rank 0 alone reads and writes it.  write(path, value): writes JSON
    whole or not at all (training.files.write_json).  A file of other machines is measured anew and replaced.
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


def _times(comm, rings, hop: int, size: int, messages: int = 1, repeats: int = 1, rest: float = 0):
    """Return (ranks, repeats) seconds in which each rank sent its messages and was sent as many. Collective.

    They are of ``size`` bytes, to the rank ``hop`` places on in its ring; inf for ranks whose ring has no other.
    rest: seconds to be idle before.
    """
    mine = np.full(repeats, np.inf)
    ring = next((ring for ring in rings if comm.rank in ring), ())
    if len(ring) > 1:
        at = ring.index(comm.rank)
        following, preceding = ring[(at + hop) % len(ring)], ring[(at - hop) % len(ring)]
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
    """Return the longest of the times of all ranks that have a partner, 0 if none has."""
    return float(times[np.isfinite(times)].max(initial=0))


def _latency(comm, rings) -> float:
    """Return the typical seconds of a tiny message. Collective."""
    _times(comm, rings, 1, _TINY)  # connections are made
    times = np.median(_times(comm, rings, 1, _TINY, repeats=_PINGS), axis=1)
    return float(np.median(times[np.isfinite(times)])) if np.isfinite(times).any() else 0.0


def _rates(comm, rings, hops, seconds):
    """Return (out, into, burst): (ranks,) bytes/s that leave and enter each rank in a ring, 0 for others. Collective.

        rate = (3 n - n) / (time of 3 n - time of n)        what is the same for both, latency and bursts, goes out
        burst = n - rate * time of n                        see ``_burst``; latency is little beside it

    hops: 2 to measure with another partner, too: the faster counts, so that a slow partner is not blamed on a rank.
    """
    # the best of a few: one late rank would end the growth where a card's burst still hides its speed
    size, slowest = _FIRST, _slowest(_times(comm, rings, 1, _FIRST, repeats=3).min(axis=1))
    while 0 < slowest < seconds / 16 and size < _MOST:
        size *= 2
        slowest = _slowest(_times(comm, rings, 1, size, repeats=2).min(axis=1))
    rest = min(2 * _BUCKET * slowest / size, _MOST_REST)
    repeats = 1 if slowest > seconds / 4 else 2
    out, into, ahead = np.zeros(comm.size), np.zeros(comm.size), [0.0]
    for hop in (1, -1)[:hops]:
        short, long = (_times(comm, rings, hop, n, 1, repeats, rest).min(axis=1) for n in (size, 3 * size))
        for ring in rings:
            following = np.roll(ring, -hop)
            # a rank also waits for its other partner: the message between two took what the luckier of them says
            short_took, long_took = (np.minimum(t[list(ring)], t[following]) for t in (short, long))
            if len(ring) > 1:
                rate = 2 * size / np.maximum(long_took - short_took, long_took / 3)
                out[list(ring)] = np.maximum(out[list(ring)], rate)
                into[following] = np.maximum(into[following], rate)
                ahead.append(float(np.median(size - rate * short_took)))
    return out, into, _burst(size, max(ahead))


def _burst(size, ahead) -> float:
    """Return how many of ``size`` bytes a card let through at once, when its time was that of ``ahead`` fewer. Local.

    Less than an eighth is not told from noise: such a card has no burst that would matter. No more than half.
    """
    return 0.0 if ahead < size / 8 else min(ahead, size / 2)


def _overhead(comm, rings, latency) -> float:
    """Return the seconds that each of many tiny messages takes beyond the first's latency. Collective."""
    took = _slowest(_times(comm, rings, 1, _TINY, _BURST, 3).min(axis=1))
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
