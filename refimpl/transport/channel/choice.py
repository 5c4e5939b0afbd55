"""Which way the channel of a training takes: as asked for, or the fastest between neighbours, measured at set-up."""

import time
from contextlib import contextmanager
from typing import Callable

import numpy as np

from refimpl.transport.channel import CHANNELS, NONE
from refimpl.transport.channel.landing import LandingChannel
from refimpl.transport.channel.messages import ChannelMessages, slots_between
from refimpl.transport.channel.rma import RmaChannel
from refimpl.transport.channel.shared import SharedChannel
from refimpl.transport.communicator import Communicator

WAYS = {way.way: way for way in (SharedChannel, LandingChannel, RmaChannel)}
TRIED = 8, 32 << 10
"""Bytes of the messages of a trial: a list's length, and some rows."""
TURNS = 20


@contextmanager
def over_channel(comm: Communicator, wanted: str, announce: Callable[[str], None] | None = None):
    """Let messages go through a channel, of CHANNELS, in the block. Collective: all ranks say the same.

    announce: called on rank 0 with what was chosen, and why.
    Raises CollectiveError on all ranks where they do not, or where that way cannot serve.
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
    """Return (the transport of a way, why); None: auto found none to be faster than MPI's messages."""
    def make(way):
        within = way == "shared"
        return ChannelMessages(comm, WAYS[way].open(comm, slots_between(comm.machines, within)))

    if wanted != "auto":
        return make(wanted), f"channel {wanted}, as --channel says; an allreduce keeps its own messages"
    times, ways = {NONE: _seconds(comm, comm.host_transport)}, {}
    for way in WAYS if comm.size > 1 else ():
        if way == "shared" and not any(len(ranks) > 1 for ranks in comm.machines):
            continue
        ways[way] = make(way)
        times[way] = _seconds(comm, ways[way])
    best = min(times, key=times.get)
    for way, transport in ways.items():
        if way != best:
            transport.channel.close()
    told = ", ".join(f"{'MPI messages' if way == NONE else way} {1e6 * seconds:.3g}" for way, seconds in times.items())
    return ways.get(best), f"channel {best} is the fastest to a neighbour: us for {sum(TRIED):,} bytes: {told}"


def _seconds(comm, transport) -> float:
    """Return the seconds of two messages to the right neighbour and from the left, of the slowest rank. Collective."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    if comm.size == 1:
        return 0.0
    pairs, times = [(np.zeros(size, np.uint8), np.empty(size, np.uint8)) for size in TRIED], []
    for _ in range(TURNS):
        begin = time.perf_counter()
        for out, into in pairs:
            transport.start([(right, out)], [(left, into)], "the trial of a channel").wait()
        times.append(time.perf_counter() - begin)
    return float(comm.gather_numbers([float(np.median(times))], "the trial of a channel").max())
