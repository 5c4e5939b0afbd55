"""Before an allreduce is timed, it must give the right sum of whole numbers, which no rounding error excuses."""

from kernels.arrays import array_module


def check_sum(comm, name: str, array, allreduce) -> None:
    """Sum whole numbers over the ranks; leave zeros, written so that the array's memory is real. Collective.

    array: what this rank contributes.  allreduce() -> the sum.  Raises CollectiveError on every rank if it is wrong.
    """
    place = array_module(array).arange(array.size) % 97
    array[...] = place * (comm.rank + 1)
    right = bool((allreduce() == place * (comm.size * (comm.size + 1) // 2)).all())
    comm.agree(None if right else ValueError(f"{name} gives a wrong sum of {array.size} elements"))
    array[...] = 0
    comm.meet("a benchmark")
