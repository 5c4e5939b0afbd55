"""Checks of lesson 5: a curve through three points, the busiest owner of P partitions, rows sent once per machine."""

import numpy as np

from refimpl.notebook.exercises import answered, exercise, right, wrong
from refimpl.plan.partitions.search import fit_curve
from refimpl.server.partition import Partitioning

SAMPLES = {1: 10.0, 2: 7.0, 4: 7.0}
"""P -> seconds of a step, chosen for computing by hand."""


@exercise
def check_curve(thetas, best):
    """Check the curve through SAMPLES, (θ0, θ1, θ2), and the integer P at its lowest point."""
    fit = fit_curve(SAMPLES)
    if len(thetas) != 3 or not np.allclose(thetas, (fit.theta0, fit.theta1, fit.theta2), atol=1e-6):
        for partitions, seconds in SAMPLES.items():
            said = thetas[0] + thetas[1] / partitions + thetas[2] * partitions
            if abs(said - seconds) > 1e-6:
                return wrong(f"at P = {partitions} your curve says {said:.4g} s, the sample {seconds:g} s; subtract "
                             "the equations of P = 1 and 2, and of 2 and 4, to eliminate θ0")
        return wrong("give three numbers, θ0, θ1, θ2")
    if best != fit.best(range(1, 5)):
        return wrong(f"the curve is lowest at √(θ1 / θ2) = {(fit.theta1 / fit.theta2) ** 0.5:.3f}, and P is a whole "
                     "number: compare its two neighbours")
    return right(f"t({best}) = {fit.seconds(best):.3g} s, though this P was never measured")


@exercise
def check_busiest(busiest):
    """Check a function (P, N) -> the largest part of a variable's P equal partitions that one of N owners holds."""
    for partitions, ranks in ((1, 4), (4, 4), (9, 4), (6, 4), (5, 3), (128, 8)):
        given = answered(busiest(partitions, ranks))
        owners = Partitioning.dealt(partitions, partitions, [0] * ranks, "interleaved").owners
        expected = np.bincount(owners).max() / partitions
        if abs(given - expected) > 1e-9:
            return wrong(f"for P = {partitions} on {ranks} ranks you say {given:.4g}; the partitions are dealt like "
                         f"cards, one to each rank in turn: how many does the first rank get?")
    return right("it is 1/P as long as each rank has at most one; then a staircase, which never goes below 1/N")


@exercise
def check_union(answer):
    """Check the row numbers that two workers send, [2, 3, 5, 8] and [3, 5, 13]: (without, with local aggregation)."""
    apart, together = answer
    if apart != 7:
        return wrong("without it each worker pulls all rows that it touches: count both lists")
    if together != 5:
        return wrong("with it the machine pulls the union of the two lists, each row once")
    return right("2α counts 7, α' counts 5: rows that both workers need cross the network once")
