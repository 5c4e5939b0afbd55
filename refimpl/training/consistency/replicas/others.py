"""The other ranks' replicas, as one rank reaches them: their sum in the order of the tree, or one of them."""

from dataclasses import replace

import numpy as np

from refimpl.collectives.prove import prove
from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.collectives.schedule import Schedule
from refimpl.gradients import Layout
from refimpl.plan.plan import Plan


def schedule_of(plan: Plan) -> Schedule:
    """Return the schedule that adds up replicas: the plan's algorithm, for one array of each rank. Local.

    Raises ValueError for one that cannot do that, or not in the order of the tree.
    """
    schedule = replace(plan, microbatches=plan.ranks).schedule()
    if not prove(schedule).canonical:
        raise ValueError(f"allreduce {plan.allreduce} adds up {plan.ranks} replicas in an order of its own, and what "
                         "they come to would depend on it: say --allreduce direct")
    return schedule


class Others:
    """What a rank has of the others. Collective to make and to use.

    layout: of a replica.  like: an array of its dtype.  shared: whether ranks of one machine may sum in shared memory.
    """

    def __init__(self, comm, schedule: Schedule, layout: Layout, like, shared: bool):
        self.comm, self.rank = comm, comm.rank
        self.elements = layout.overlaps(0, layout.size)
        self.theirs = np.empty_like(like)
        self.allreduce = open_allreduce(schedule, comm, layout.size, like, "allreduce", layout.overlaps, shared)

    def total(self, write):
        """Return the sum of what all write, for reading, until the next one. write(mine) fills this rank's. Collective.
        """
        self.comm.meet("a sum over all replicas")  # who still reads the last one has not come here
        write(self.allreduce.slots[0])
        return self.allreduce()

    def replica(self, other: int, x):
        """Return another rank's replica, which gets this one's, x. Only the two of them wait. Collective."""
        self.comm.exchange([(other, x, self.elements)], [(other, self.theirs, self.elements)], "gossip", "dense",
                           packed=False)
        return self.theirs
