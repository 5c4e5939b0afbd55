"""Equals plain/without_barriers/decentralised.py: how the replicas of the ranks are averaged, a class for each way.

                begin: before a step       end: after a step              answer: what all ranks end with
    EASGD       d = α (x - x̃); x̃ += Σ d    x -= d                         x̃
    Gossip      x = (x + theirs) / 2                                      Σ x_i / N
    Local                                  x = Σ n_i x_i / V, after E     x, averaged after the last step, too

x: all values of this rank's replica, (w,), changed in place.  n_i of V: microbatches.  others: the other replicas, see
``run.Others``, which knows how to reach them. An allreduce over all replicas (``sums``) sends 2 w (N - 1) / N values
out of each rank. If two replicas are averaged, each rank sends w values.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from refimpl.plain.without_barriers.consistencies import DECENTRALISED
from refimpl.plain.without_barriers.decentralised import BETA, partner


@dataclass
class Meeting:
    """How the replicas of a training are averaged. The constructor is local; all ranks make the same calls.

    ranks: N.  steps: of the training.  period: PERIOD or E.
    """

    ranks: int
    steps: int
    period: int = 1

    def open(self, x, examples: int, microbatches: int):
        """Start from these values. examples: n_i.  microbatches: how many have these examples. Local."""
        self.examples, self.microbatches = x.dtype.type(examples), x.dtype.type(microbatches)

    def begin(self, number: int, x, others: Any):
        """Do what precedes step ``number`` (from 0). Collective over the ranks that exchange replicas in it."""

    def end(self, number: int, x, others: Any):
        """Do what follows step ``number``. Collective over the ranks that exchange replicas in it."""

    def answer(self, x, others: Any):
        """Return the values that all ranks end with, the same on each. Collective."""
        return x

    def sums(self, number: int) -> bool:
        """Return whether step ``number`` adds up all replicas. A sum of ``answer`` belongs to the last step. Local."""
        return False

    def partner(self, rank: int, number: int) -> int:
        """Return the rank whose replica a rank receives in step ``number``, or its own number. Local."""
        return rank


class EASGD(Meeting):
    """In every PERIOD-th step a spring of strength α = β / N pulls each replica and a centre together."""

    def open(self, x, examples, microbatches):
        self.alpha, self.centre = x.dtype.type(BETA / self.ranks), x.copy()
        self.pull = np.empty_like(x)

    def sums(self, number):
        return (number + 1) % self.period == 0

    def begin(self, number, x, others):
        if self.sums(number):
            np.subtract(x, self.centre, out=self.pull)
            self.pull *= self.alpha
            self.centre += others.total(lambda mine: np.copyto(mine, self.pull))

    def end(self, number, x, others):
        if self.sums(number):
            x -= self.pull

    def answer(self, x, others):
        return self.centre


class Gossip(Meeting):
    """Each step begins with the mean of two replicas. Only these two ranks wait for each other."""

    def sums(self, number):
        return number + 1 == self.steps

    def partner(self, rank, number):
        return partner(rank, self.ranks, number)

    def begin(self, number, x, others):
        other = self.partner(others.rank, number)
        if other != others.rank:
            x += others.replica(other, x)
            x /= x.dtype.type(2)

    def answer(self, x, others):
        return others.total(lambda mine: np.copyto(mine, x)) / x.dtype.type(self.ranks)


class Local(Meeting):
    """E steps of each rank, then the mean, weighted by examples. The last round may be shorter."""

    def sums(self, number):
        return (number + 1) % self.period == 0 or number + 1 == self.steps

    def end(self, number, x, others):
        if self.sums(number):
            np.divide(others.total(lambda mine: np.multiply(x, self.examples, out=mine)), self.microbatches, out=x)


MEETINGS = {"easgd": EASGD, "gossip": Gossip, "local": Local}


def meeting(text: str, ranks: int, steps: int) -> Meeting:
    """Return a new Meeting for a text such as "easgd:4". Local. Raises ValueError, with possible texts."""
    name, colon, number = text.partition(":")
    takes = DECENTRALISED[name]
    if bool(colon) != bool(takes):
        raise ValueError(f"consistency {text}: write {name}{takes}")
    if not takes:
        return MEETINGS[name](ranks, steps)
    if not (number.isdecimal() and int(number) >= 1):
        raise ValueError(f"consistency {text}: {takes[1:]} must be a whole number, from 1 on")
    if name == "easgd" and 0 < steps < int(number):
        raise ValueError(f"consistency {text}: in {steps} steps the replicas would never move the centre, "
                         f"which is the result: give a PERIOD of at most {steps}")
    return MEETINGS[name](ranks, steps, int(number))
