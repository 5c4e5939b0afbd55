"""NCCL's own allreduce (``--allreduce nccl``): for comparison. It adds in an order of its own: not canonical."""

from refimpl.collectives.running.runner import count_transfers
from refimpl.collectives.schedule import Schedule
from refimpl.transport import Communicator


class NcclAllreduce:
    """Allreduce by NCCL as it likes. Local to make, after ``check_nccl``.

    Arguments as for ``ScheduleRunner``.  schedule: what is counted; NCCL does not tell what it sends, so the ledger
    has the ring's bytes, 2 (N - 1) / N * n, which no allreduce of one copy can go below.
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
        self.comm.ledger.add(self.counted)
        return total


def check_nccl(comm: Communicator, like):
    """Raise ValueError where there is no NCCL between the ranks, or it has no sum of this dtype. Local."""
    if comm.size == 1:
        return
    if getattr(comm.device_transport, "name", None) != "nccl":
        why = "arrays are on the CPU" if comm.device_transport is None else comm.device_transport.reason
        raise ValueError(f"--allreduce nccl needs --device cuda and NCCL between the ranks ({why}); say --allreduce "
                         "ring, which is as many bytes, or direct, which is canonical")
    if not comm.device_transport.adds(like.dtype):
        raise ValueError(f"--allreduce nccl: NCCL has no sum of {like.dtype}; say --allreduce direct")
