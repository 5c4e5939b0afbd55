"""What a schedule's rounds add to a rank's ledger: whoever runs them."""

from refimpl.collectives.schedule import Schedule
from refimpl.transport import Ledger


def count_transfers(schedule: Schedule, rounds, comm, elements: int, itemsize: int, phase: str, attribute) -> Ledger:
    """Return what this rank sends and is sent in the rounds, of a vector of ``elements``. Local.

    attribute(start, stop) -> {variable: elements}: whose elements a message holds.
    """
    counted, bounds, owners = Ledger(), schedule.bounds(elements), {}
    for t in (t for step in rounds for t in step.of(comm.rank).transfers):
        if (t.start, t.stop) not in owners:
            owners[t.start, t.stop] = attribute(bounds[t.start], bounds[t.stop])
        sends = t.source == comm.rank
        crosses = (t.destination if sends else t.source) not in comm.machine
        counted.count("sent" if sends else "received", crosses, phase, owners[t.start, t.stop], "dense", itemsize)
    return counted
