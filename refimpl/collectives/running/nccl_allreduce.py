"""NCCL's own allreduce (``--allreduce nccl``): for comparison. It adds in an order of its own: not canonical."""

from kernels import array_module
from refimpl.collectives.running.counting import count_transfers
from refimpl.collectives.schedule import Schedule
from refimpl.transport import Communicator


class NcclAllreduce:
    """Allreduce by NCCL as it likes, with the slots that its inputs are written to. Local to make, see ``open``.

    Arguments as for ``Runner``.  schedule: what is counted; NCCL does not tell what it sends, so the ledger has the
    ring's bytes, 2 (N - 1) / N * n, which no allreduce of one copy can go below.
    """

    def __init__(self, schedule: Schedule, comm: Communicator, elements: int, like, phase: str, attribute):
        self.comm, self.what = comm, f"{phase} by NCCL's own allreduce"
        self.counted = count_transfers(schedule, schedule.rounds, comm, elements, like.dtype.itemsize, phase, attribute)
        inputs = max(1, len(schedule.inputs[comm.rank]))
        self.slots = [array_module(like).zeros(elements, like.dtype) for _ in range(inputs)]

    @classmethod
    def open(cls, schedule, comm, elements, like, phase, attribute) -> "NcclAllreduce":
        """Return it. Collective over ``comm``.

        Raises CollectiveError on all ranks where there is no NCCL between them, or the dtype has no sum.
        """
        comm.together(lambda: _check(comm, like), (ValueError,))
        return cls(schedule, comm, elements, like, phase, attribute)

    def __call__(self):
        """Return the sum over all ranks of what is in the slots: slots[0]. Collective."""
        total, *others = self.slots
        for other in others:
            total += other
        if self.comm.size > 1 and total.size:
            self.comm.device_transport.allreduce(total, self.what).wait()
        self.comm.ledger.add(self.counted)
        return total


def _check(comm, like):
    if comm.size == 1:
        return
    if getattr(comm.device_transport, "name", None) != "nccl":
        why = "arrays are on the CPU" if comm.device_transport is None else comm.device_transport.reason
        raise ValueError(f"--allreduce nccl needs --device cuda and NCCL between the ranks ({why}); say --allreduce "
                         "ring, which is as many bytes, or direct, which is canonical")
    if not comm.device_transport.adds(like.dtype):
        raise ValueError(f"--allreduce nccl: NCCL has no sum of {like.dtype}; say --allreduce direct")
