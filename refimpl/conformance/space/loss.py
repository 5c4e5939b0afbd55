"""The loss of a step, and a broadcast, with their decisions.

weights   the factor of each rank's sum over its examples, before the sums are added
root      the rank whose array a rank gets in a broadcast
"""

import numpy as np

from refimpl.conformance.bounds import Expected, bound, exact_sum
from refimpl.conformance.space.by_rule import wrong_numbers
from refimpl.conformance.space.deviation import Deviation, Machine, Place, parametrised
from refimpl.plain.adding.sums import Sums

GIVEN = {"loss": "losses", "gradient": "gradients"}


class Loss(Machine):
    """The answers to a case of kind loss."""

    fields = ("loss",)

    @classmethod
    def alternatives(cls, cases):
        groups = tuple(("mean-of-group-means", f"the loss is the mean of means over groups of {size} ranks",
                        _of_groups(size)) for size in (2, 3) if size < max(case.ranks for case in cases))
        return [*(Deviation(code, words, {"weights": lambda right, m, p, weights=weights: weights(
            m.counts, p.rank, right)}) for code, words, weights in WEIGHTS + groups),
                *wrong_numbers("weights", "the weight of each rank's loss")]

    def answer(self, place: Place) -> Expected:
        """Return the loss, or its gradient, that a rank gets. Local."""
        parts = [ranks[GIVEN[place.variable.name]] for ranks in self.case.steps[place.step]]
        counts = self.counts = np.array([len(part) for part in parts])
        weights = self.decide("weights", Sums(self.semantics, len(counts)).weights(counts), place)
        addends = np.stack([w * row for w, part in zip(weights, parts) for row in part])
        dtype = self.semantics.loss_dtype
        tolerance = bound(len(addends) + 4, np.abs(addends).sum(axis=0), dtype)
        return Expected(exact_sum(addends), np.asarray(tolerance), dtype)


class Broadcast(Machine):
    """The answers to a case of kind broadcast."""

    @classmethod
    def alternatives(cls, cases):
        return [*(Deviation("root-ignored", f"the broadcast gives rank {r}'s array, not the root's: the root is "
                            "ignored", {"root": lambda right, machine, place, r=r: r})
                  for r in range(max(case.ranks for case in cases))),
                Deviation("not-broadcast", "each rank keeps its own array: nothing is broadcast",
                          {"root": lambda right, machine, place: place.rank})]

    def answer(self, place: Place) -> Expected:
        """Return what a rank gets. Local."""
        root = self.decide("root", self.case.settings["root"], place)
        value = self.case.steps[place.step][root][place.variable.name]
        return Expected(value.astype(np.float64), np.zeros(value.shape), place.variable.dtype, value)


def _own(weight):
    """Only the examples of the rank that gets the loss, times weight(counts, rank, right)."""
    return lambda counts, rank, right: np.where(np.arange(len(counts)) == rank, weight(counts, rank, right), 0.0)


def _by(total):
    """The sum over all examples divided by total(counts, rank)."""
    return lambda counts, rank, right: np.full(len(counts), 1.0 / total(counts, rank))


@parametrised
def _of_groups(size, counts, rank, right):
    """The mean of the means of groups of neighbouring ranks."""
    groups = np.arange(len(counts)) // size
    totals = np.bincount(groups, counts)
    return 1.0 / (np.maximum(1, totals[groups]) * len(totals))


WEIGHTS = (
    ("divided-by-full-batch", "the loss is divided by as many full batches as there are ranks, not by the number of "
     "examples", _by(lambda counts, rank: len(counts) * counts.max())),
    ("divided-by-ranks", "the loss is divided by the number of ranks, not by that of examples",
     _by(lambda counts, rank: len(counts))),
    ("mean-of-active-means", "the loss is the mean of means over the ranks that have examples",
     lambda counts, rank, right: np.where(counts > 0, 1.0 / (np.maximum(1, counts) * (counts > 0).sum()), 0.0)),
    ("count-of-rank-0", "the loss is divided as if every rank had as many examples as rank 0",
     _by(lambda counts, rank: len(counts) * max(1, counts[0]))),
    ("count-of-own", "the loss is divided as if every rank had as many examples as the one that gets it",
     _by(lambda counts, rank: len(counts) * max(1, counts[rank]))),
    ("empty-counts-one", "a rank without examples is counted as if it had one",
     _by(lambda counts, rank: np.maximum(1, counts).sum())),
    ("not-reduced", "each rank gets the mean over its own examples: nothing is reduced",
     _own(lambda counts, rank, right: 1.0 / max(1, counts[rank]))),
    ("not-reduced", "each rank gets its own examples' part alone: nothing is reduced",
     _own(lambda counts, rank, right: right)),
    ("rank-miscounted", "the last rank's examples are left out",
     lambda counts, rank, right: np.where(np.arange(len(counts)) < len(counts) - 1, right, 0.0)),
    ("rank-miscounted", "rank 0's examples are left out",
     lambda counts, rank, right: np.where(np.arange(len(counts)) > 0, right, 0.0)),
)
"""(code, words, weights(counts, rank, right): the factors of the ranks' sums)."""
