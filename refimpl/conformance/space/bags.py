"""Deviations of pooled look-ups: ``refimpl.plain.adding.bags`` with methods replaced."""

import numpy as np

from refimpl.conformance.cases.bags import bags_of
from refimpl.conformance.space.deviation import Deviation, parametrised
from refimpl.plain.adding.bags import Bags


def _all(bags, ids):
    return np.full(len(ids), True)


MISTAKES = (
    ("padding-learned", "the padding index's row gets a gradient", {"kept": _all, "counted": Bags.kept}),
    ("padding-counted", "the padding index is counted in a bag's mean", {"counted": _all}),
    ("padding-ignored", "the padding index is taken for a row like any other", {"kept": _all}),
    ("bags-summed", "the gradient of a bag's mean is not divided by the number of its look-ups",
     {"divisors": lambda bags, counts: np.ones_like(counts)}),
    ("bags-averaged", "the gradient of a bag's sum is divided by the number of its look-ups",
     {"divisors": lambda bags, counts: counts}),
    ("divided-by-bags", "the gradient of a bag is divided by the number of bags, not of its look-ups",
     {"divisors": lambda bags, counts: np.full_like(counts, len(counts))}),
    ("offsets-as-ends", "offsets are taken for the ends of bags: a look-up gets the gradient of the next bag",
     {"bag_of": lambda bags, at, offsets: np.minimum(Bags.bag_of(bags, at, offsets) + 1, len(offsets) - 1)}),
)
"""(code, words, methods in place of its own)."""


@parametrised
def _mistaken(methods, right, machine, place):
    return type("Mistaken", (Bags,), methods)(**machine.case.settings["bags"]).rows(*bags_of(place.rank))


def deviations() -> list[Deviation]:
    """Return a deviation for each mistake. Local."""
    return [Deviation(code, words, {"contribution": _mistaken(methods)}, lambda case: case.kind == "bags")
            for code, words, methods in MISTAKES]
