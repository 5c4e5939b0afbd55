"""Strategy "reduce-scatter" of dense variables: each rank sums, updates and sends its own N-th of their rows.

    push: reduce-scatter of gradients  ->  optimizer on the owned rows  ->  pull: allgather of values, in the next step
    bytes in and out of a rank: 4 w (N - 1) / N, as by allreduce; each rank keeps 1 / N of the optimizer's state

Variables that travel together lie in one arena. It is cut only between rows, because the norm adds up each row in one
order. So the parts differ by at most about one row. (Das et al. 2016; ZeRO, stage 1.) Its exchange: ``owned_dense``.
The plain version: ``refimpl.plain.strategies.reduce_scatter``.
"""

from dataclasses import dataclass

import numpy as np

from refimpl.plan.partitions.parts import rows_of
from refimpl.strategies.blocks import table_shape
from refimpl.strategies.owned_dense import OwnedDense, Piece


@dataclass(frozen=True)
class ReduceScatter(OwnedDense):
    """The strategy in a plan. It has no fields: the owners follow from the variables that travel together."""

    name, automatic, cut_together = "reduce-scatter", False, True
    label, colour, mark = "reduce-scatter, allgather", "orange", "D"

    @classmethod
    def pieces(cls, placed, ranks):
        """The piece of rank r begins with the row nearest to element r / N of the arena."""
        found, before, total = [], 0, sum(variable.size for variable, _ in placed)
        for variable, _ in placed:
            rows = table_shape(variable)[0]
            width = max(1, variable.size) / max(1, rows)
            inside = [round((r * total / ranks - before) / width) for r in range(1, ranks)]
            ends = [0, *(min(max(0, row), rows) for row in inside), rows]
            own = [Piece(r, variable if stop - start == rows else rows_of(variable, start, stop))
                   for r, (start, stop) in enumerate(zip(ends, ends[1:])) if start < stop]
            found += own or [Piece(0, variable)]  # a variable without rows
            before += variable.size
        return found

    def work(self, variable, plan, sample):
        return np.full(plan.ranks, variable.nbytes / plan.ranks)
