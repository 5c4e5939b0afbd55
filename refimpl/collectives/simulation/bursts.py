r"""Flows share links, max-min fairly. Token buckets: an idle card first sends a burst, faster than its rate.

    saved |--.                    A flow that begins on an idle card passes at memory's speed until the bucket is
          |   \       /           empty, then at the card's rate. While less than the rate passes, the bucket fills.
          +----\_____/----  time

A transfer of n bytes through an idle card takes latency + (n - burst) / rate, or nearly nothing if n < burst.
"""

import numpy as np

from refimpl.collectives.simulation.network import Network

EQUAL = 1e-12
"""Relative difference below which two rates, or two times, count as equal."""


def fair_rates(links, capacity):
    """Return each flow's max-min fair rate, by progressive filling (Bertsekas & Gallager, Data Networks, 6.5.2). Local.

        rate(f) = min over links l of f:  (capacity(l) - rates of flows already full) / flows on l not yet full

    The most crowded link comes first. In the result a flow can get more only if one that is not faster gets less.
    links: (k, flows), the links of each flow; capacity: (links,) in bytes/s, inf if unlimited.
    A link is filled when none of its flows is limited more by another link, so several links may be filled at once.
    """
    rates = np.zeros(links.shape[1])
    left = np.array(capacity, dtype=float)
    flows = None  # all
    while links.shape[1]:
        count = np.bincount(links.ravel(), minlength=left.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(count > 0, left / count, np.inf)
        shares = share[links]
        level = shares.min(axis=0)
        full = np.bincount(links[shares > level * (1 + EQUAL)], minlength=left.size) == 0
        done = (full[links] & (shares == level)).any(axis=0)
        if flows is None and done.all():
            return level
        rates[slice(None) if flows is None else flows] = np.where(done, level, 0)
        for link in links:
            left -= np.bincount(link[done], level[done], left.size)
        left = np.maximum(left, 0)
        flows = np.flatnonzero(~done) if flows is None else flows[~done]
        links = links[:, ~done]
    return rates


_LEAST = 1.0  # bytes: a bucket that holds less is empty


class Bursts:
    """The buckets of all cards, full at first. capacity: bytes/s of each link; the first 2 M links are the cards'."""

    def __init__(self, network: Network, capacity):
        self.burst, self.limited, cards = network.burst, capacity, 2 * len(network.machines)
        self.saved = np.full(cards, network.burst)
        self.rate = capacity[:cards]
        if network.burst:
            self.at_once = np.maximum(self.rate, np.tile(network.memory_bandwidth, 2))
        self.passing = np.zeros(cards)  # bytes/s
        self.emptied = False  # whether a bucket has become empty since ``share_out``

    def share_out(self, links):
        """Return each flow's rate from now on (see ``fair_rates``)."""
        self.emptied = False
        if not self.burst:
            return fair_rates(links, self.limited)
        capacity, cards = self.limited.copy(), self.rate.size
        capacity[:cards] = np.where(self.saved > 0, self.at_once, self.rate)
        rates = fair_rates(links, capacity)
        through = sum(np.bincount(link, rates, capacity.size) for link in links)
        self.passing = through[:cards]
        return rates

    def last(self) -> float:
        """Return the seconds until a bucket is empty, when rates must be computed again; inf if none will be."""
        drained = self._drained() if self.burst else self.passing
        some = drained > 0
        return float((self.saved[some] / drained[some]).min(initial=np.inf))

    def let(self, seconds: float):
        """Let the flows run for ``seconds``."""
        if not self.burst:
            return
        drained = self._drained()
        self.saved = np.minimum(self.saved + (self.rate - self.passing) * seconds, self.burst)
        empty = self.saved < _LEAST
        self.saved[empty] = 0
        self.emptied = bool((empty & (drained > 0)).any())

    def _drained(self):
        """Return the bytes/s that each nonempty bucket loses."""
        return np.where(self.saved > 0, self.passing - self.rate, 0)
