"""Choose the way of a training's channel: the one asked for, or the first of the fastest, measured at set-up."""

import time
from contextlib import contextmanager
from typing import Callable

import numpy as np

from refimpl.transport.channel import CHANNELS, NONE
from refimpl.transport.channel.landing import LandingChannel
from refimpl.transport.channel.messages import SLOT, ChannelMessages, slots_between
from refimpl.transport.channel.rma import RmaChannel
from refimpl.transport.channel.shared import SharedChannel
from refimpl.transport.communicator import Communicator
from refimpl.transport.memory.peer_memory import ranks_reach_each_other

WAYS = {way.way: way for way in (SharedChannel, LandingChannel, RmaChannel)}
TRIED = 8, 32 << 10
"""Bytes of a trial's two messages: as long as a list's length, and as some rows."""
TURNS = 30
SHARE = 0.1
"""The quantile of the turns' times that counts. On a busy machine other programs delay most turns."""
NEAR = 1.1
"""Ways that take up to so many times as long as the fastest count as equal. The first of them is chosen."""


@contextmanager
def over_channel(comm: Communicator, wanted: str, announce: Callable[[str], None] | None = None):
    """Send messages through a channel in the block. wanted: one of CHANNELS, the same on all ranks. Collective.

    announce: called on rank 0 with the choice, and why.
    Raises CollectiveError on all ranks if ``wanted`` differs, or if this way does not work here.
    """
    said = comm.gather_numbers([CHANNELS.index(wanted)], "the choice of a channel")[:, 0].tolist()
    comm.together(lambda: _check(comm, said), (ValueError,))
    before = comm.host_transport
    found, reason = (None, "") if wanted == NONE else _opened(comm, wanted)
    if reason and announce is not None and comm.rank == 0:
        announce(reason)
    if found is None:
        yield
        return
    comm.host_transport, comm.waiter.beside = found, found.go_on
    try:
        yield
    finally:
        comm.host_transport, comm.waiter.beside = before, None
    found.channel.close()


def _check(comm, said):
    if set(said) != {said[0]}:
        raise ValueError("the ranks ask for different channels: " + ", ".join(
            f"{CHANNELS[number]} on rank {rank}" for rank, number in enumerate(said)) + "; give all the same --channel")
    if CHANNELS[said[0]] == "shared" and not any(len(ranks) > 1 for ranks in comm.machines):
        raise ValueError("--channel shared is for ranks of one machine, and each rank has a machine of its own: take "
                         "landing or rma")


def _opened(comm, wanted):
    """Return (the transport of a way, why). The transport is None if no way is faster than MPI's messages."""
    def make(way):
        channel = WAYS[way].open(comm, slots_between(comm.machines, way == "shared", SLOT[way]))
        reach = way == "shared" and ranks_reach_each_other(comm)
        return ChannelMessages(comm, channel, dict(zip(comm.machine, channel.window.pids.tolist())) if reach else None)

    if wanted != "auto":
        return make(wanted), f"channel {wanted}, as --channel says; an allreduce keeps its own messages"
    near = [way for way in WAYS if way != "shared" or any(len(ranks) > 1 for ranks in comm.machines)]
    ways = {NONE: comm.host_transport, **{way: make(way) for way in near if comm.size > 1}}
    times = _seconds(comm, ways)
    best = next(way for way, seconds in times.items() if seconds <= NEAR * min(times.values()))
    for way, transport in ways.items():
        if way not in (NONE, best):
            transport.channel.close()
    told = ", ".join(f"{'MPI messages' if way == NONE else way} {1e6 * seconds:.3g}" for way, seconds in times.items())
    return ways[best] if best != NONE else None, (
        f"channel {best} is as fast to a neighbour as any, within {NEAR - 1:.0%}: us for {sum(TRIED):,} bytes: {told}")


def _seconds(comm, ways) -> dict[str, float]:
    """Return way -> the slowest rank's seconds for two messages to its right neighbour, and two from its left.

    The ways take turns, so a disturbance of the machine affects all of them. Collective.
    """
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    if comm.size == 1:
        return dict.fromkeys(ways, 0.0)
    pairs = [(np.zeros(size, np.uint8), np.empty(size, np.uint8)) for size in TRIED]
    times = np.empty((TURNS, len(ways)))
    for turn in times:
        for i, transport in enumerate(ways.values()):
            comm.waiter.beside, begin = getattr(transport, "go_on", None), time.perf_counter()
            for out, into in pairs:
                transport.start([(right, out)], [(left, into)], "the trial of a channel", True).wait()
            turn[i] = time.perf_counter() - begin
    comm.waiter.beside = None
    slowest = comm.gather_numbers(np.quantile(times, SHARE, axis=0), "the trial of a channel").max(axis=0)
    return dict(zip(ways, slowest.tolist()))
