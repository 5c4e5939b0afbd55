"""Exercises of lesson 6: which ranks were counted, the microbatch tree's sum, the name of a bug."""

import numpy as np

from refimpl.collectives.orders import add_in_order, tree_of
from refimpl.conformance.adapters.reference import Reference
from refimpl.notebook.exercises import answered, exercise, right, wrong


class DividedByPushes(Reference):
    """Rows are divided by their push count."""

    def divisors(self, parts, ids):
        return sum(np.isin(ids, pushed) for pushed, _ in parts)


class IdsAsFloats(Reference):
    """Row numbers pass through float32."""

    dtype = "float32"

    def leaf(self, ids, rows):
        return super().leaf(ids.astype(self.dtype).astype(np.int64), rows)


RANKS = 4
FOUND = 22
"""The sum found when rank r contributed 4**r: rank 0 counts twice, ranks 1 and 2 once, rank 3 never."""
PLANTED = DividedByPushes
"""The implementation whose bug the lesson finds."""
SUSPECT = IdsAsFloats
"""The implementation whose bug is to be named."""
LENGTHS = (1, 2, 4, 8, 16, 3, 5, 6, 7, 9, 12)


@exercise
def check_counts(counts):
    """Check how often each of 4 ranks was counted if rank r gave 4**r and the sum is 22. counts: 4 numbers."""
    counts = list(counts)
    if len(counts) != RANKS:
        return wrong(f"give {RANKS} numbers, one for each rank, rank 0's first")
    total = sum(count * 4**rank for rank, count in enumerate(counts))
    if total != FOUND:
        return wrong(f"these counts would give {total}, not {FOUND}: write {FOUND} in base 4")
    if max(counts) > 3 or min(counts) < 0:
        return wrong(f"that gives {FOUND} too, but a digit of base 4 is 0 to 3")
    return right("rank 0 was counted twice and rank 3 never. A comparison with a tolerance would not show this.")


@exercise
def check_tree(add_up):
    """Check a function that adds up a list of float32 numbers as the microbatch tree does, to the bit."""
    random = np.random.default_rng(6)
    for length in LENGTHS:
        for values in random.standard_normal((20, length)).astype(np.float32):
            found = answered(add_up(list(values)))
            wanted = add_in_order(tree_of(range(length)), values)
            if np.float32(found).tobytes() != wanted.tobytes():
                return wrong(_why(add_up, values, found, wanted))
    return right(f"the same bits as the tree, for {len(LENGTHS)} lengths from 1 to {max(LENGTHS)}.")


def _why(add_up, values, found, wanted) -> str:
    total = values[0]
    for value in values[1:]:
        total = total + value
    said = f"for {len(values)} numbers your sum is {float(found)!r}, the tree's {float(wanted)!r}"
    if found == total:
        return f"{said}: you added one after the other; add neighbours first"
    if len(values) & (len(values) - 1):
        return f"{said}: powers of two are right; what becomes of a number without a neighbour?"
    return said


@exercise
def check_bug(code):
    """Check the code of the diagnosis that names the suspect's bug."""
    if str(code) == "ids-float32":
        return right("16,777,217 again: the first row number that float32 does not have.")
    if str(code) == "ids-int32":
        return wrong("nearly: but 16,777,217 easily fits into an integer of 32 bits")
    return wrong("run the suite on SUSPECT; the diagnosis shows the code, as in sparse=per-row-count")
