"""Max-min fairness: how flows that share links divide them (Bertsekas & Gallager, Data Networks, section 6.5.2)."""

import numpy as np

EQUAL = 1e-12
"""Relative difference below which two rates, or two moments, are one."""


def fair_rates(first, second, capacity):
    """Return each flow's max-min fair rate, by progressive filling. Local; called by ``simulate``.

        rate(f) = min over links l of f:  (capacity(l) - rates of flows already full) / flows on l not yet full

    taken link by link, most crowded first: no flow can have more without another, no faster one, having less.
    first, second: (flows,) the two links that each flow takes; capacity: (links,) in bytes/s, inf where unlimited.
    A link is filled as soon as none of its flows is held lower by its other link: crowds far apart fill at once.
    """
    rates = np.zeros(len(first))
    left = np.array(capacity, dtype=float)
    flows = None  # all
    while len(first):
        count = np.bincount(first, minlength=left.size) + np.bincount(second, minlength=left.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(count > 0, left / count, np.inf)
        one, other = share[first], share[second]
        level = np.minimum(one, other)
        held = np.bincount(first[one > level * (1 + EQUAL)], minlength=left.size)
        held += np.bincount(second[other > level * (1 + EQUAL)], minlength=left.size)
        full = held == 0
        done = (full[first] & (one <= other)) | (full[second] & (other <= one))
        if flows is None and done.all():
            return level
        rates[slice(None) if flows is None else flows] = np.where(done, level, 0)
        for link in (first, second):
            left -= np.bincount(link[done], level[done], left.size)
        left = np.maximum(left, 0)
        flows = np.flatnonzero(~done) if flows is None else flows[~done]
        first, second = first[~done], second[~done]
    return rates
