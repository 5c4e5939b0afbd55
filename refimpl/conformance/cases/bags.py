"""Pooled look-ups: sum and mean over bags of rows, with and without a padding index."""

import numpy as np

from refimpl.conformance.case import Case, CaseVariable
from refimpl.conformance.cases.numbers import exact
from refimpl.plain.adding.bags import Bags

TABLE, PADDING = CaseVariable("table", (9, 3), True), 3


def cases(ranks: int):
    """Yield the cases for a number of ranks."""
    for pooling in ("sum", "mean"):
        for padding in (None, PADDING):
            bags = Bags(pooling, padding)
            yield Case(f"bags/{pooling}{'' if padding is None else '-padded'}", "bags", f"the {pooling} of each bag's "
                       f"rows{'' if padding is None else ', with a padding index'}", ranks, (TABLE,),
                       (tuple({TABLE.name: bags.rows(*bags_of(r))} for r in range(ranks)),),
                       settings={"bags": {"pooling": pooling, "padding": padding}, "only": {"duplicates": ["add"]}})


def bags_of(rank: int):
    """Return a rank's (ids, offsets, gradients of the bags): one bag is empty, one has padding alone. Local.

    Bags have 1, 2 or 4 look-ups, the padding counted or not: to multiply with a reciprocal is right, too.
    """
    bags = [[1, PADDING], [], [PADDING, PADDING], [5, PADDING, 5, PADDING], [8, 5 + rank % 4], [rank % 3]]
    offsets = np.cumsum([0, *map(len, bags[:-1])])
    return np.array(sum(bags, []), np.int64), offsets, exact(f"bags{rank}", (len(bags), TABLE.shape[1]))
