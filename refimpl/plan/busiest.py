"""How much of what the servers do falls on the busiest owner, for any number of partitions P: why P matters at all."""

import numpy as np

from refimpl.plan.partitions.balance import owner_loads
from refimpl.plan.make import make_plan
from refimpl.plan.sample import Sample
from refimpl.transport.machines import Machines


def busiest_shares(variables, sample: Sample, machines: Machines, counts, scheme: str = "interleaved") -> dict:
    """Return P -> the part of all served bytes that the busiest rank serves, under hybrid, for each P of counts. Local.

    sample: rows that a training touches (``take_sample``). At least 1/N, for N ranks; 1 where one has everything.
    """
    pulls, ranks = sample.pulls_per_step(machines), sum(map(len, machines))
    shares = {}
    for partitions in counts:
        plan = make_plan(variables, "hybrid", ranks, sample.microbatches, partitions=partitions, scheme=scheme,
                         machines=machines)
        loads = owner_loads(variables, plan, pulls)
        shares[partitions] = float(np.max(loads) / max(1.0, np.sum(loads)))
    return shares
