"""Predict the time to prove, draw or simulate an algorithm on N ranks, from measurements on a processor core of 2024.

    show a schedule of N chunks     3e-7 N^3 s: every chunk on every rank, then the check for deadlocks
    of 1 or 2 chunks                2e-6 N^2 s: whole vectors up and down a tree
    simulate                        2e-7 s a transfer of columns; 6e-6 s and 330 bytes a transfer of tuples
"""

from bisect import bisect_right
from dataclasses import dataclass

from refimpl.transport.job.host import memory

WHOLE_VECTORS = ("binomial-tree", "double-tree", "recursive-doubling")
"""Algorithms with one or two chunks. The others have one for each rank."""
COLUMNS = ("ring", "direct", "halving-doubling", "hierarchical")
"""Algorithms that are simulated as columns; hierarchical, if all machines have the same power of two of ranks."""
PATIENCE = 60.0  # seconds that a user waits for an algorithm given by its name
GLANCE = 10.0  # seconds for each algorithm of "all"
A_RANK, A_MICROBATCH = 2e-6, 4e-6  # seconds to handle a rank, a microbatch


@dataclass(frozen=True)
class Effort:
    """The predicted seconds and bytes of memory."""

    seconds: float
    nbytes: float = 0.0

    def part_of(self, seconds: float) -> float:
        """Return the larger fraction: of ``seconds``, or of this host's memory. Local."""
        return max(self.seconds / seconds, self.nbytes / memory())

    def __str__(self):
        units = (("years", 365 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60), ("s", 1))
        unit, scale = next((pair for pair in units if self.seconds >= 2 * pair[1]), units[-1])
        time = f"{self.seconds / scale:,.3g} {unit}"
        return f"{time} and {self.nbytes / 2**30:,.3g} GiB of memory" if self.nbytes > 2**31 else time


def of_proof(algorithm: str, ranks: int, microbatches: int = 0) -> Effort:
    """Return the effort to make, prove and show a schedule. Local."""
    work = 2e-6 * ranks**2 if algorithm in WHOLE_VECTORS else 3e-7 * ranks**3
    return Effort(work + A_MICROBATCH * microbatches, 400.0 * ranks**2)


def of_simulation(algorithm: str, ranks: int, each: int = 1, segments: int = 1) -> Effort:
    """Return the effort to simulate an algorithm on machines of ``each`` ranks. Local."""
    each, many, levels = min(each, ranks), -(-ranks // each), 2 * ranks.bit_length()
    uneven = algorithm == "hierarchical" and (each & each - 1 or ranks % each)  # then rounds are tuples
    transfers = {"ring": 2 * ranks**2, "direct": 2 * ranks**2,
                 "hierarchical": 2 * each * many**2 + 2 * many * each**2, "binomial-tree": 2 * ranks,
                 "double-tree": 4 * ranks}.get(algorithm, levels * ranks)
    at_once = transfers / 2 if algorithm in ("direct", "hierarchical") else ranks
    seconds, nbytes = 2e-7 * transfers, 140.0 * at_once
    if uneven or algorithm not in COLUMNS:
        seconds, nbytes = 5e-8 * ranks**3 if uneven else 6e-6 * transfers, 330.0 * transfers
    return Effort(seconds * segments + A_RANK * ranks, nbytes + 400.0 * ranks)


def of_plan(ranks: int) -> Effort:
    """Return the effort to plan a training: up to 256 ranks every algorithm is made and proved. Local."""
    few = min(ranks, 256)
    return Effort(1.5e-4 * few**2 + 3e-3 * (ranks - few), 2000.0 * few**2 + 1e5 * (ranks - few))


def require(what: str, ranks: int, effort_of, seconds: float = PATIENCE):
    """Raise ValueError, with the most ranks, if ``what`` takes more than these seconds or this host's memory. Local.

    effort_of(ranks): the ``Effort``, which rises with the ranks.
    """
    if effort_of(ranks).part_of(seconds) > 1:
        most = bisect_right(range(1, ranks), 1, key=lambda fewer: effort_of(fewer).part_of(seconds))
        raise ValueError(f"{what} on {ranks} ranks would take about {effort_of(ranks)}; the limit is "
                         f"{seconds:g} s and {memory() / 2**30:,.0f} GiB, which is enough for "
                         + (f"{most} ranks" if most else "no number of ranks: make the other sizes smaller"))
