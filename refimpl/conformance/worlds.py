"""Ranks as threads of one process: a world for adapters that are plain NumPy. No MPI."""

import threading
from concurrent.futures import ThreadPoolExecutor

SECONDS = 20.0


class LeftAlone(RuntimeError):
    """Another rank failed, or never came."""


class LocalWorld:
    """One rank's view. rank, size: as in MPI.  allgather(item): every rank's item, by rank; nothing is copied."""

    def __init__(self, rank: int, size: int, shared):
        self.rank, self.size, self._barrier, self._box = rank, size, shared[0], shared[1]

    def allgather(self, item) -> list:
        """Return every rank's item, by rank. Collective. Raises LeftAlone if a rank fails or stays away."""
        if self.size == 1:
            return [item]
        self._box[self.rank] = item
        self._wait()
        everyone = list(self._box)
        self._wait()
        return everyone

    def leave(self):
        """Tell the others not to wait for this rank any more."""
        self._barrier.abort()

    def _wait(self):
        try:
            self._barrier.wait(SECONDS)
        except threading.BrokenBarrierError as problem:
            raise LeftAlone("another rank failed, or never came to this exchange") from problem


def run_ranks(size: int, work) -> list:
    """Return [work(world) of each rank], the ranks being threads. Raises what a rank raises. Local."""
    shared = threading.Barrier(size), [None] * size

    def run(rank):
        try:
            return work(LocalWorld(rank, size, shared))
        except Exception:
            shared[0].abort()  # whoever waits for this rank is told
            raise

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(run, range(size)))
