"""The largest flow between two nodes, the cut that proves it (SciPy, integer rates), and how to divide flows."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

MOST = 2**31 - 1  # SciPy counts in 32 bits


def taken(pieces: list, amount):
    """Take an amount from the end of a list of (amount, content); yield the parts, which add up to it. Local."""
    while amount:
        most, what = pieces.pop()
        used = min(most, amount)
        pieces += [(most - used, what)] * (most > used)
        amount -= used
        yield used, what


class Capacities:
    """Links with integer rates, to which links can be added. unlimited: stands for a link without a limit."""

    def __init__(self, nodes: int, rates: dict[tuple[int, int], int]):
        self.nodes, self.rates = nodes, rates
        self.unlimited = sum(rates.values()) + 1

    def with_links(self, nodes: int, more: dict[tuple[int, int], int]) -> "Capacities":
        """Return the network with ``nodes`` nodes and more links. A rate None means no limit."""
        rates = dict(self.rates)
        limit = self.unlimited + sum(rate for rate in more.values() if rate is not None)
        for link, rate in more.items():
            rates[link] = rates.get(link, 0) + (limit if rate is None else rate)
        return Capacities(nodes, rates)

    def flow(self, source: int, sink: int) -> int:
        """Return the largest flow from source to sink."""
        return int(maximum_flow(self._table(), source, sink).flow_value)

    def cut(self, source: int, sink: int) -> tuple[int, set[int]]:
        """Return (the largest flow, the nodes on the source's side of a smallest cut)."""
        table = self._table()
        found = maximum_flow(table, source, sink)
        left = table - found.flow
        left.data = np.maximum(left.data, 0)
        left.eliminate_zeros()
        return int(found.flow_value), set(breadth_first_order(left, source, return_predecessors=False).tolist())

    def _table(self):
        ends, rates = np.array([*self.rates]), np.array([*self.rates.values()], np.int64)
        if rates.sum() > MOST:
            raise ValueError("the rates have too many digits (they need whole numbers above 2**31): round them")
        return csr_array((rates.astype(np.int32), ends.T), (self.nodes, self.nodes), dtype=np.int32)
