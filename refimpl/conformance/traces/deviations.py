"""Deviations that traces alone have: of what microbatches own, of the start, of the loss and of the norm."""

from dataclasses import replace
from itertools import combinations, permutations

from refimpl.conformance.case import with_numbers
from refimpl.conformance.space.by_rule import wrong_numbers
from refimpl.conformance.space.clipping import CLIPPING
from refimpl.conformance.space.contributions import CHANGES
from refimpl.conformance.space.deviation import Deviation, Impossible, parametrised
from refimpl.plain.adding.sums import norm_of


def _by_examples(part, machine, place):
    """A microbatch's loss, and so its gradient, divided by its own number of examples."""
    given = {what: machine.case.sources.ours.get("inputs", place.step, what, place.rank)
             for what in ("normaliser", "targets", "weights")}
    counted = given["targets"].size if given["weights"] is None else given["weights"].sum()
    return with_numbers(part, lambda x: x * float(given["normaliser"] / counted))


@parametrised
def _of_another(order, shift, part, machine, place):
    """What belongs to another microbatch, or step. order: microbatch -> the other.  shift: of steps."""
    if place.rank not in order or place.step + shift < 0:
        raise Impossible
    return machine.given(replace(place, step=place.step + shift, rank=order[place.rank]))


def _moved(count: int, what: str) -> list[Deviation]:
    """Return deviations in which microbatches have what belongs to others. what: they have."""
    everyone = range(count)
    orders = [*({a: b, b: a} for a, b in combinations(everyone, 2)), *({a: b} for a, b in permutations(everyone, 2)),
              *({m: (m + by) % count for m in everyone} for by in (1, -1)), {m: count - 1 - m for m in everyone}]
    return [Deviation("microbatches-swapped", "; ".join(f"rank {m} has the {what} of rank {o}" for m, o in sorted(
        order.items())), {"contribution": _of_another(order, 0)}) for order in orders]


def of_microbatches(count: int) -> list[Deviation]:
    """Return deviations of the gradients that microbatches have before they are added. Local."""
    def times(factor):
        return lambda part, machine, place: with_numbers(part, lambda x: x * factor)

    return [Deviation("multiplied-by-n", f"gradients are {count} times the expected ones: not averaged, or multiplied "
                      "by the number of microbatches", {"contribution": times(count)}),
            Deviation("divided-again", f"gradients are 1/{count} of the expected ones: divided by the number of "
                      "microbatches once more", {"contribution": times(1 / count)}),
            Deviation("loss=mean-of-means", "each microbatch's loss is divided by its own number of targets, not by "
                      "that of the whole batch", {"contribution": _by_examples}), *_moved(count, "gradients")]


def of_given(count: int) -> list[Deviation]:
    """Return deviations of the start, or of the state that microbatches carry from step to step. Local."""
    changes = [("zeroed", "the array is 0", lambda part, variable: 0 * part),
               *((code, words.format("the array"), change) for code, words, change in CHANGES)]
    return [*(Deviation(code, words, {"contribution": lambda part, m, p, change=change: change(part, p.variable)})
              for code, words, change in changes),
            Deviation("buffer-reused", "the carried state is that of the step before",
                      {"contribution": _of_another({m: m for m in range(count)}, -1)}), *_moved(count, "carried state")]


def _of_step_before(right, machine, place):
    before = machine.case.wanted.get(("metrics", place.step - 1, None, place.variable.name, "value"))
    return right if before is None else before.value


def _summed(right, machine, place):
    inputs = machine.case.sources.ours.arrays
    return right * next(a for p, a in inputs.items() if p[:2] == ("inputs", place.step) and p[3] == "normaliser")


METRICS = [
    *(Deviation(f"{what}-stale", f"the {what} is that of the step before", {what: _of_step_before})
      for what in ("loss", "norm")),
    *(deviation for what in ("loss", "norm") for deviation in wrong_numbers(what, f"the {what}", but=(
        "missing", "squared", "inverted", "plus-one", "minus-one"))),
    Deviation("loss=sum", "the loss is the sum over all targets, not their mean", {"loss": _summed}),
    Deviation("norm-squared", "the norm is without its root", {"norm": lambda right, m, p: right**2}),
    Deviation("norm-clipped", "the norm is that of the clipped gradient, not the one before",
              {"norm": lambda right, m, p: min(right, m.task.clip or right)}),
    Deviation("norm-with-statistics", "the norm counts running statistics, too",
              {"norm": lambda right, m, p: norm_of(m.case.gradients[p.step], m.semantics)}),
    *(d for d in CLIPPING if d.code in ("norm-of-sizes", "norm-of-largest", "norm-averaged", "norms-added",
                                        "norm-of-ranks", "norm-dense-n-times", "norm-rows-n-times"))]
"""Deviations of a step's loss, and of the norm of its gradient."""
