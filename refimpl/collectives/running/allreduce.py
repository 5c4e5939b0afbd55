"""An allreduce made ready for a length and dtype: by shared memory where ranks share a machine, else by messages."""

from kernels import array_module, is_numpy
from refimpl.collectives.running.nccl_allreduce import NcclAllreduce
from refimpl.collectives.running.runner import Runner
from refimpl.collectives.running.shared import SharedRunner
from refimpl.collectives.schedule import NCCL, Schedule
from refimpl.transport import Communicator

READ_IN_PLACE = ("direct", "hierarchical")
"""Algorithms whose transfers within a machine are read from shared memory: in the others a rank's partners change."""


class OwnSlots:
    """Allreduce by messages, with the slots that its inputs are written to. Local to make."""

    def __init__(self, schedule, comm, elements, like, phase, attribute):
        self.runner = Runner(schedule, comm, elements, like, phase, attribute)
        inputs = max(1, len(schedule.inputs[comm.rank]))
        self.slots = [array_module(like).zeros(elements, like.dtype) for _ in range(inputs)]

    def __call__(self):
        """Return the sum over all ranks of what is in the slots: slots[0]. Collective."""
        return self.runner(self.slots)


def open_allreduce(schedule: Schedule, comm: Communicator, elements: int, like, phase: str, attribute,
                   shared: bool = True):
    """Return what sums its ``slots`` over all ranks when it is called, by ``schedule``. Collective to make and to call.

    slots: (elements,) arrays of the dtype and device of ``like``, one for each input of this rank. The call returns the
    sum; it may lie in memory that the machine's ranks share: it is for reading, until all have met again.
    shared: False sends messages even within a machine. attribute: see ``Runner``.
    """
    if schedule.name == NCCL:
        return NcclAllreduce.open(schedule, comm, elements, like, phase, attribute)
    able = READ_IN_PLACE if len(comm.machines) == 1 else ("hierarchical",)
    in_memory = shared and is_numpy(like) and len(comm.machines) < comm.size and schedule.name in able
    make = SharedRunner.open if in_memory else OwnSlots
    return make(schedule, comm, elements, like, phase, attribute)
