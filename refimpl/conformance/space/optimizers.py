"""Wrong optimizers: classes of ``refimpl.plain.updating.optimizers`` with methods replaced."""

from functools import cache

import numpy as np

from refimpl.conformance.space.by_rule import wrong_lines, wrong_numbers
from refimpl.conformance.space.deviation import Deviation, Impossible
from refimpl.plain.updating.optimizers import OPTIMIZERS, SGD
from refimpl.plain.updating.optimizers_elsewhere import EVERY

ADAM = OPTIMIZERS["adam"]


def _decayed_after(o, p, state, at, g, rate, t):
    decay, o.decay = o.decay, 0.0
    SGD.apply(o, p, state, at, g, rate, t)
    p[at] *= 1 - rate * decay


SLOTS = (
    ("slots-twice", "the optimizer's state is updated twice in each update, parameters once",
     lambda o, p, state, *more: [SGD.apply(o, each, state, *more) for each in (p.copy(), p)]),
    ("slots-not-kept", "the optimizer's state stays as it was before the update, though the parameter is updated",
     lambda o, p, state, *more: SGD.apply(o, p, {n: a.copy() for n, a in state.items()}, *more)),
)
"""(code, words, the wrong ``apply`` of any optimizer)."""
FORMULAS = {
    "sgd": (
        ("sign-only", "only the gradient's sign is applied", {"step": lambda o, g, rate: rate * np.sign(g)}),
        ("decayed", "the parameter is multiplied by 1 - rate as well",
         {"update": lambda o, p, s, g, rate, t: np.subtract(p * (1 - rate), rate * g, out=p)}),
    ),
    "momentum": (
        ("rate-in-velocity", "the rate is multiplied into the velocity, not into the step",
         {"velocity": lambda o, v, g, rate: o.mu * v + rate * g, "step": lambda o, v, g, rate: v}),
        ("dampened", "the gradient enters the velocity multiplied by 1 - mu",
         {"velocity": lambda o, v, g, rate: o.mu * v + (1 - o.mu) * g}),
        ("nesterov", "the step is Nesterov's: gradient plus mu times the new velocity",
         {"step": lambda o, v, g, rate: rate * (g + o.mu * v)}),
        ("velocity-old", "the step takes the velocity as it was before this gradient",
         {"step": lambda o, v, g, rate: rate * (v - g) / o.mu}),
        ("rate-twice", "the rate is in the velocity and in the step",
         {"velocity": lambda o, v, g, rate: o.mu * v + rate * g}),
    ),
    "nesterov": (
        ("momentum", "the step is the velocity alone: that is momentum without Nesterov's step",
         {"step": lambda o, v, g, rate: rate * v}),
        ("ahead-twice", "the step looks ahead twice: gradient plus mu times (gradient plus mu times the new velocity)",
         {"step": lambda o, v, g, rate: rate * (g + o.mu * (g + o.mu * v))}),
    ),
    "adamw": (
        ("decayed-after", "weight decay comes after the step, not before it", {"apply": _decayed_after}),
        ("decayed-twice", "weight decay moves the parameter, and is added to the gradient as well",
         {"decayed": lambda o, p, g, rate, decay: (p * (1 - rate * decay), g + decay * p)}),
    ),
    "adagrad": (
        ("epsilon-twice", "epsilon is added inside and outside the root",
         {"step": lambda o, a, g, rate: rate * g / (np.sqrt(a + o.epsilon) + o.epsilon)}),
        ("epsilon-kept", "epsilon is kept in the sum of squares",
         {"accumulator": lambda o, a, g, rate: a + g * g + o.epsilon,
          "step": lambda o, a, g, rate: rate * g / np.sqrt(a)}),
        ("initial-ignored", "the sum of squares starts from 0, not from its initial value",
         {"step": lambda o, a, g, rate: rate * g / (
             np.sqrt(np.maximum(a - o.slots["accumulator"], 1e-300)) + o.epsilon)}),
        ("accumulator-old", "the root is of the sum of squares before this gradient",
         {"step": lambda o, a, g, rate: rate * g / (np.sqrt(a - g * g) + o.epsilon)}),
        ("squares-averaged", "the mean over a row of its squares is added up",
         {"accumulator": lambda o, a, g, rate: a + (g * g).mean(-1, keepdims=True)}),
    ),
    "adam": (
        ("epsilon-inside", "epsilon is added inside the root",
         {"step": lambda o, m, v, g, rate, c1, c2: rate * m / c1 / np.sqrt(v / c2 + o.epsilon)}),
        ("not-corrected", "neither moment is corrected", {"corrections": lambda o, t: (1, 1)}),
        ("betas-swapped", "beta1 and beta2 are swapped",
         {"__init__": lambda o, beta1, beta2, *more, **named: ADAM.__init__(o, beta2, beta1, *more, **named)}),
        ("one-beta", "beta1 is used for both moments",
         {"__init__": lambda o, beta1, beta2, *more, **named: ADAM.__init__(o, beta1, beta1, *more, **named)}),
        ("one-beta", "beta2 is used for both moments",
         {"__init__": lambda o, beta1, beta2, *more, **named: ADAM.__init__(o, beta2, beta2, *more, **named)}),
        ("weights-swapped", "beta1 and 1 - beta1 are swapped",
         {"first": lambda o, m, g: (1 - o.beta1) * m + o.beta1 * g}),
        ("weights-swapped", "beta2 and 1 - beta2 are swapped",
         {"second": lambda o, v, g: (1 - o.beta2) * v + o.beta2 * g * g}),
        ("gradient-alone", "the step takes the gradient, not the first moment",
         {"step": lambda o, m, v, g, rate, c1, c2: rate * g / (np.sqrt(v / c2) + o.epsilon)}),
        ("moment-old", "the step takes the first moment before this gradient",
         {"step": lambda o, m, v, g, rate, c1, c2: ADAM.step(
             o, (m - (1 - o.beta1) * g) / o.beta1, v, g, rate, c1, c2)}),
        ("moment-old", "the step takes the second moment before this gradient",
         {"step": lambda o, m, v, g, rate, c1, c2: ADAM.step(
             o, m, np.maximum(v - (1 - o.beta2) * g * g, 0) / o.beta2, g, rate, c1, c2)}),
    ),
}
"""optimizer -> (code, words, wrong methods)."""
LINES = {"sgd": ((), "step", "decayed"), "momentum": ((), "velocity", "step"), "nesterov": ((), "step"),
         "dampened": (("mu",), "dampened"), "adagrad": ((), "accumulator", "step"),
         "adam": (("beta1", "beta2"), "first", "second", "corrections", "step"), "adam-hat": ((), "step"),
         "adagrad-inside": ((), "step")}
"""optimizer -> some of its numbers, and the lines of its formula in which ``wrong_lines`` makes mistakes."""
USUAL = {"mu": 0.9, "dampening": 0.0, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "decay": 0.0}
"""Number of an optimizer -> its usual default."""


def _only(code, words, owner, methods) -> Deviation:
    """Return a deviation of an optimizer, and of those that inherit these methods from it. owner: its class."""
    def changed(right, machine, place):
        kind = type(right)
        if not all(getattr(kind, method, None) is getattr(owner, method) for method in methods):
            raise Impossible
        return type(code, (kind,), methods)(**machine.task.options)

    def concerns(case):
        kind = EVERY[case.settings["task"]["optimizer"]]
        return issubclass(kind, owner) or issubclass(owner, kind)

    return Deviation(code, words, {"formula": changed}, concerns)


def _wrong_options():
    """Yield the mistakes in a number of an optimizer."""
    for name, usual in USUAL.items():
        def given(case, name=name):
            return bool(case.settings["task"]["options"].get(name))

        if not name.startswith("beta"):  # a beta above 1 gives no numbers
            yield from wrong_numbers(name, f"the optimizer's {name}", given, but=(
                "missing", "squared", "inverted", "plus-one", "minus-one", "negated"))
        yield Deviation(f"{name}-usual", f"the optimizer's {name} is {usual:g}, a usual default: not the number given",
                        {name: lambda right, m, p, usual=usual: usual}, given, paired=False)


@cache
def deviations() -> list[Deviation]:
    """Return the deviations of all formulas, of their lines, and of their numbers. Local."""
    found = [_only(code, words, SGD, {"apply": apply}) for code, words, apply in SLOTS]
    found += [_only(f"{name}-{code}", f"{name}: {words}", EVERY[name], methods)
              for name, formulas in FORMULAS.items() for code, words, methods in formulas]
    found += [_only(f"{name}-{line}", f"{name}: {words}", EVERY[name], {line: wrong})
              for name, (numbers, *lines) in LINES.items() for line in lines
              for words, wrong in wrong_lines(EVERY[name], line, numbers)]
    return [*found, *_wrong_options(),
            Deviation("sgd-instead", "the optimizer is plain sgd", {"formula": lambda right, m, p: SGD()})]
