"""Seconds of a vector of many segments: once the network is full, each takes as long as the one before.

    seconds of S segments = seconds of MANY + (S - MANY) (seconds of MANY - seconds of FEW) / (MANY - FEW)
"""

from refimpl.collectives.running.segments import LANES
from refimpl.collectives.schedule import Schedule
from refimpl.collectives.simulation.network import Network
from refimpl.collectives.simulation.simulate import simulate

FEW, MANY = 2 * LANES, 4 * LANES
SIMULATED = 8 * LANES
"""Segments of a vector that is simulated whole: a longer one takes minutes at 48 ranks."""


def seconds_of(schedule: Schedule, network: Network, elements: int, itemsize: int, segments: int) -> float:
    """Return ``simulate``'s seconds; beyond SIMULATED segments from those of FEW and MANY alike. Local."""
    if segments <= SIMULATED:
        return simulate(schedule, network, elements, itemsize, segments).seconds
    few, many = (simulate(schedule, network, elements * some // segments, itemsize, some).seconds
                 for some in (FEW, MANY))
    return many + (segments - MANY) * (many - few) / (MANY - FEW)
