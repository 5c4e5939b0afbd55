"""Ranks as threads of one process: a world for adapters that are plain NumPy. No MPI."""

import threading
from concurrent.futures import ThreadPoolExecutor

SECONDS = 20.0


class LeftAlone(RuntimeError):
    """Another rank failed, or never came."""


class LocalWorld:
    """One rank's view. rank, size: as in MPI.  allgather(item): every rank's item, by rank; nothing is copied."""

    def __init__(self, rank: int, size: int, shared):
        self.rank, self.size, self._barrier, self._boxes = rank, size, shared[0], shared[1]

    def allgather(self, item) -> list:
        """Return every rank's item, by rank. Collective. Raises LeftAlone if a rank fails or stays away."""
        if self.size == 1:
            return [item]
        self._boxes.reverse()  # no rank is more than one exchange ahead: two boxes are enough
        box = self._boxes[0]
        box[self.rank] = item
        try:
            self._barrier.wait(SECONDS)
        except threading.BrokenBarrierError as problem:
            raise LeftAlone("another rank failed, or never came to this exchange") from problem
        return list(box)

    def leave(self):
        """End the waiting of other ranks for this rank."""
        self._barrier.abort()


def run_ranks(size: int, work) -> list:
    """Return [work(world) of each rank], the ranks being threads. Local.

    Raises what a rank raises; LeftAlone only if no rank raises anything else.
    """
    barrier, boxes = threading.Barrier(size), ([None] * size, [None] * size)

    def run(rank):
        try:
            return work(LocalWorld(rank, size, (barrier, list(boxes))))
        except Exception:
            barrier.abort()  # ranks that wait for this one end
            raise

    with ThreadPoolExecutor(size) as threads:
        ends = [threads.submit(run, rank) for rank in range(size)]
    wrong = [end.exception() for end in ends if end.exception()]
    if wrong:
        raise min(wrong, key=lambda problem: isinstance(problem, LeftAlone))
    return [end.result() for end in ends]
