"""From an algorithm's name to a proved schedule."""

from functools import lru_cache

from refimpl.collectives.direct import direct
from refimpl.collectives.halving_doubling import halving_doubling
from refimpl.collectives.prove import prove
from refimpl.collectives.ring import ring
from refimpl.collectives.schedule import Schedule
from refimpl.gradients import cover, leaves_of

ALGORITHMS = {"direct": direct, "halving-doubling": halving_doubling, "ring": ring}


@lru_cache(maxsize=64)
def make_schedule(algorithm: str, ranks: int, leaves: int) -> Schedule:
    """Return the proved schedule of an algorithm for ``leaves`` microbatches on ``ranks`` ranks. Local.

    ``auto`` takes halving-doubling where each rank holds one node of one level (log2(N) rounds), else direct: both
    canonical. Raises ValueError for an unknown algorithm or one that cannot serve these numbers.
    """
    inputs = tuple(tuple(cover(leaves_of(r, ranks, leaves))) for r in range(ranks))
    if algorithm == "auto":
        aligned = ranks & (ranks - 1) == 0 and {len(nodes) for nodes in inputs} == {1}
        aligned = aligned and len({node.level for nodes in inputs for node in nodes}) == 1
        algorithm = "halving-doubling" if aligned else "direct"
    if algorithm not in ALGORITHMS:
        raise ValueError(f"no allreduce algorithm {algorithm!r}; there are auto, {', '.join(ALGORITHMS)}")
    schedule = Schedule(algorithm, ranks, inputs, tuple(ALGORITHMS[algorithm](inputs)))
    prove(schedule)
    return schedule
