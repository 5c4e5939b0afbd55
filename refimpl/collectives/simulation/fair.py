"""Max-min fairness: how flows that share links divide them (Bertsekas & Gallager, Data Networks, section 6.5.2)."""

import numpy as np

EQUAL = 1e-12
"""Relative difference below which two rates, or two moments, are one."""


def fair_rates(links, capacity):
    """Return each flow's max-min fair rate, by progressive filling. Local; called by ``simulate``.

        rate(f) = min over links l of f:  (capacity(l) - rates of flows already full) / flows on l not yet full

    taken link by link, most crowded first: no flow can have more without another, no faster one, having less.
    links: (k, flows) the links that each flow takes; capacity: (links,) in bytes/s, inf where unlimited.
    A link is filled as soon as none of its flows is held lower by another link: crowds far apart fill at once.
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
