"""Checks of lesson 2: bytes of a step by hand, the hot spot's factor, partitions assigned to owners."""

from refimpl.notebook.exercises import answered, exercise, number, right, wrong
from refimpl.pictures.servers import PHASES, pull_and_push
from refimpl.server import Partitioning

PARTS = Partitioning.round_robin(12, 4, 4)
NEEDS = [[0, 4], [4, 7], [4, 10], [1]]
"""The step of the notebook: the rows that each rank reads."""
NUMBER, ROW = 8, 12
"""Bytes of a row number, and of a row of three float32."""


def bytes_of(rank: int) -> dict[str, dict[str, int]]:
    """Return direction -> phase -> bytes of one rank in the notebook's step. Local."""
    each = dict(zip(PHASES, (NUMBER, ROW, NUMBER + ROW)))
    return {direction: {phase: sum(each[phase] * len(rows) for kind, *ends, rows in pull_and_push(PARTS, NEEDS)
                                   if kind == phase and ends[end] == rank) for phase in PHASES}
            for end, direction in enumerate(("sent", "received"))}


@exercise
def check_rank_2(sent, received):
    """Check the bytes that rank 2 sends and receives in the step."""
    phases = bytes_of(2)
    want_sent, want_received = (sum(phases[direction].values()) for direction in ("sent", "received"))
    if (sent, received) == (want_sent, want_received):
        return right("its own rows cost nothing; it serves one row, and pulls two.")
    if (sent, received) == (want_received, want_sent):
        return wrong("you have the two directions the wrong way round: it sends numbers and gradients, it gets rows")
    only_pull = {direction: sum(list(phases[direction].values())[:2]) for direction in phases}
    if (sent, received) == tuple(only_pull.values()):
        return wrong("that is the pull; the gradients must also go to the owners")
    lacking = NUMBER * (len(PHASES) - 1)
    if want_sent - sent == 2 * lacking or want_sent - sent == lacking:
        return wrong("row numbers travel twice: in the pull, and again with the gradient")
    return wrong(f"count by message: rank 2 pulls two rows, serves one, and pushes two. You have {sent} sent "
                 f"and {received} received")


check_factor = number(24, "2 α w (N - 1) over 4 α w (N - 1) / N is N / 2: neither α nor w matters.", {
    48: "the owner of a part is also a worker: it pulls from all the others. Divide the two formulas",
    2: "2 and 4 are the numbers in front; what is the ratio of (N - 1) and (N - 1) / N?",
}, "write 2 α w (N - 1) over 4 α w (N - 1) / N, and cancel")
"""The factor by which 48 partitions of a table relieve the busiest of 48 ranks."""


LOADS = [[9, 1, 1, 1, 1, 1, 1, 1], [5, 5, 4, 4, 3, 3, 3], [100, 50, 33, 25, 20, 16, 14, 12, 11, 10], [7], [2, 2, 2, 2],
         [1, 1, 1, 1, 1, 1, 3], [2, 6, 1, 5, 3, 9, 4]]
RANKS = (2, 3, 4)


@exercise
def check_deal(deal):
    """Check a function deal(loads, ranks) that returns the owner of each partition, so that no owner is overloaded."""
    for loads in LOADS:
        for ranks in RANKS:
            owners = list(answered(deal(list(loads), ranks)))
            if len(owners) != len(loads):
                return wrong(f"deal({loads}, {ranks}) returned {len(owners)} owners for {len(loads)} partitions")
            if strange := [owner for owner in owners if owner not in range(ranks)]:
                return wrong(f"deal({loads}, {ranks}) gave a partition to {strange[0]}; ranks are 0 to {ranks - 1}")
            busiest = max(sum(load for load, owner in zip(loads, owners) if owner == rank) for rank in range(ranks))
            least = max(max(loads), -(-sum(loads) // ranks))
            if busiest > 4 / 3 * least:
                return wrong(f"deal({loads}, {ranks}) loads one owner with {busiest}, where about {least} is possible: "
                             f"assign the heaviest partition first, each to the owner with the least load so far")
    return right("the busiest owner has at most 4/3 of the minimum. Assigning the heaviest partition first, to the "
                 "least loaded owner, guarantees this for all loads (Graham, 1969).")
