"""An allreduce of vectors of one length and dtype: in shared memory if ranks share a machine, else by messages."""

from operator import iadd

from kernels import array_module, is_numpy
from refimpl.collectives.choose import MACHINE_TREES
from refimpl.collectives.running.pipeline import Pipeline
from refimpl.collectives.running.runner import ScheduleRunner, count_transfers
from refimpl.collectives.running.shared import SharedRunner
from refimpl.collectives.running.shared_plan import plan_of
from refimpl.collectives.schedule import NCCL, Schedule
from refimpl.transport import Communicator


class OwnSlots:
    """A runner with slots, arrays of this rank to which its inputs are written. The constructor is local.

    able: whether a sum may overlap with computation, because the host sends its messages.
    """

    def __init__(self, runner, inputs: int, elements: int, like):
        self.runner = runner
        self.slots = [array_module(like).zeros(elements, like.dtype) for _ in range(max(1, inputs))]
        self.able = isinstance(runner, ScheduleRunner) and is_numpy(like)
        self.under_way: Pipeline | None = None

    def __call__(self):
        """Return the sum of the slots over all ranks, in slots[0]. Finish it if it was begun. Collective."""
        if self.under_way is None:
            return self.runner(self.slots)
        self.under_way.finish()
        self.under_way = None
        return self.slots[0]

    def begin(self):
        """Begin the sum, if it may overlap with computation. Collective."""
        if self.able:
            self.under_way = self.runner.begin(self.slots)

    def advance(self) -> bool:
        """Let a sum that was begun make progress; return whether it did. Local."""
        return self.under_way is not None and self.under_way.advance()


def open_allreduce(schedule: Schedule, comm: Communicator, elements: int, like, phase: str, attribute,
                   shared: bool = True, channel: int = 0, add=iadd):
    """Return an object that sums its ``slots`` over all ranks by ``schedule`` when it is called. Collective.

    slots: (elements,) arrays with the dtype and device of ``like``, one for each input of this rank. The returned sum
    may lie in memory that the machine's ranks share: it is read-only, and valid until all ranks have met again. Between
    ``begin`` and the call, ``advance`` lets the sum overlap with computation, if it can.
    shared: False, or another sum than +, uses messages even within a machine. attribute, channel, add: see
    ``ScheduleRunner``.
    """
    arguments = schedule, comm, elements, like, phase, attribute
    if (shared and add is iadd and is_numpy(like) and len(comm.machines) < comm.size
            and _read_in_place(schedule, comm.machines)):
        return SharedRunner.open(*arguments)
    if schedule.name == NCCL:
        comm.together(lambda: check_nccl(comm, like), (ValueError,))
    runner = (NcclAllreduce(*arguments) if schedule.name == NCCL
              else ScheduleRunner(*arguments, channel=channel, add=add))
    return OwnSlots(runner, len(schedule.inputs[comm.rank]), elements, like)


def _read_in_place(schedule, machines) -> bool:
    """Return whether a machine's ranks read shared memory instead of messages: in direct and hierarchical schedules."""
    if not schedule.name.startswith(MACHINE_TREES):
        return schedule.name == "hierarchical" or schedule.name == "direct" and len(machines) == 1
    try:
        return all(plan_of(schedule, machines, ranks[0]) for ranks in machines)
    except ValueError:  # the first ranks join different nodes on different ways
        return False


class NcclAllreduce:
    """Allreduce by NCCL. The constructor is local; call ``check_nccl`` first.

    Arguments as of ``ScheduleRunner``.  schedule: is only counted. NCCL does not report what it sends, so the ledger
    gets the ring's bytes, 2 (N - 1) / N * n, the lower bound of an allreduce.
    """

    def __init__(self, schedule: Schedule, comm: Communicator, elements: int, like, phase: str, attribute):
        self.comm, self.what = comm, f"{phase} by NCCL's own allreduce"
        self.counted = count_transfers(schedule, schedule.rounds, comm, elements, like.dtype.itemsize, phase, attribute)

    def __call__(self, slots):
        """Sum over all ranks into slots[0], and return it. Collective."""
        total, *others = slots
        for other in others:
            total += other
        if self.comm.size > 1 and total.size:
            self.comm.device_transport.allreduce(total, self.what).wait()
        self.comm.ledger.repeat(self.counted)
        return total


def check_nccl(comm: Communicator, like):
    """Raise ValueError if there is no NCCL between the ranks, or if it cannot sum this dtype. Local."""
    if comm.size == 1:
        return
    if getattr(comm.device_transport, "name", None) != "nccl":
        why = "arrays are on the CPU" if comm.device_transport is None else comm.device_transport.reason
        raise ValueError(f"--allreduce nccl needs --device cuda and NCCL between the ranks ({why}); say --allreduce "
                         "ring, which sends as many bytes, or direct, which adds in the reproducible order")
    if not comm.device_transport.adds(like.dtype):
        raise ValueError(f"--allreduce nccl: NCCL has no sum of {like.dtype}; say --allreduce direct")
