"""Deviations of the optimizers' formulas: each a whole formula, as people write it, beside ``rules.optimizers``."""

import numpy as np

from refimpl.conformance.rules.optimizers import apply
from refimpl.conformance.space.deviation import Deviation, Impossible


def _momentum(velocity, step):
    """v = velocity(v, g, rate, mu);  p -= step(v, g, rate, mu, old)."""
    def formula(p, s, g, rate, t, o):
        old, mu = s["velocity"].copy(), o["mu"]
        s["velocity"][...] = velocity(old, g, rate, mu)
        p -= step(s["velocity"], g, rate, mu, old)

    return formula


def _plain(v, g, rate, mu):
    return mu * v + g


def _times_rate(v, g, rate, mu, old):
    return rate * v


def _adagrad(accumulate, step):
    """a = accumulate(a, g, rate);  p -= step(a, g, rate, epsilon, old a)."""
    def formula(p, s, g, rate, t, o):
        old = s["accumulator"].copy()
        s["accumulator"][...] = accumulate(old, g, rate)
        p -= step(s["accumulator"], g, rate, o["epsilon"], old)

    return formula


def _squares(a, g, rate):
    return a + g * g


def _by_root(a, g, rate, epsilon, old):
    return rate * g / (np.sqrt(a) + epsilon)


def _adam(first=lambda m, g, b: b * m + (1 - b) * g, second=lambda v, g, b: b * v + (1 - b) * g * g,
          correct1=lambda t, b: 1 - b**t, correct2=lambda t, b: 1 - b**t,
          step=lambda m, v, e, g, b1: m / (np.sqrt(v) + e), betas=lambda b1, b2: (b1, b2)):
    """m = first, v = second;  p -= rate step(m / correct1, v / correct2, epsilon)."""
    def formula(p, s, g, rate, t, o):
        b1, b2 = betas(o["beta1"], o["beta2"])
        s["first"][...], s["second"][...] = first(s["first"], g, b1), second(s["second"], g, b2)
        m, v = s["first"] / correct1(t, b1), s["second"] / correct2(t, b2)
        p -= rate * step(m, v, o["epsilon"], g, b1)

    return formula


def _adam_old(which):
    """The step takes a moment as it was before this update."""
    def formula(p, s, g, rate, t, o):
        b1, b2 = o["beta1"], o["beta2"]
        old = {slot: array.copy() for slot, array in s.items()}
        s["first"][...], s["second"][...] = b1 * s["first"] + (1 - b1) * g, b2 * s["second"] + (1 - b2) * g * g
        m, v = (old[slot] if slot == which else s[slot] for slot in ("first", "second"))
        p -= rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + o["epsilon"])

    return formula


FORMULAS = {
    "sgd": (
        ("ascent", "the gradient is added, not subtracted", lambda p, s, g, rate, t, o: np.add(p, rate * g, out=p)),
        ("sign-only", "only the gradient's sign is applied",
         lambda p, s, g, rate, t, o: np.subtract(p, rate * np.sign(g), out=p)),
        ("decayed", "the parameter is multiplied by 1 - rate as well",
         lambda p, s, g, rate, t, o: np.subtract(p * (1 - rate), rate * g, out=p)),
        ("overwritten", "the parameter is overwritten by the update, not changed by it",
         lambda p, s, g, rate, t, o: np.copyto(p, -rate * g)),
    ),
    "momentum": (
        ("rate-in-velocity", "the rate is multiplied into the velocity, not into the step",
         _momentum(lambda v, g, rate, mu: mu * v + rate * g, lambda v, g, rate, mu, old: v)),
        ("dampened", "the gradient enters the velocity multiplied by 1 - mu",
         _momentum(lambda v, g, rate, mu: mu * v + (1 - mu) * g, _times_rate)),
        ("nesterov", "the step is Nesterov's: gradient plus mu times the new velocity",
         _momentum(_plain, lambda v, g, rate, mu, old: rate * (g + mu * v))),
        ("nesterov", "the step is 1 + mu times the new velocity",
         _momentum(_plain, lambda v, g, rate, mu, old: rate * (v + mu * v))),
        ("no-momentum", "the velocity is not kept: mu is 0", _momentum(lambda v, g, rate, mu: g, _times_rate)),
        ("mu-one", "the velocity does not decay: mu is 1", _momentum(lambda v, g, rate, mu: v + g, _times_rate)),
        ("mu-swapped", "1 - mu takes the place of mu", _momentum(lambda v, g, rate, mu: (1 - mu) * v + g, _times_rate)),
        ("mu-squared", "mu is applied twice", _momentum(lambda v, g, rate, mu: mu * mu * v + g, _times_rate)),
        ("velocity-old", "the step takes the velocity as it was before this gradient",
         _momentum(_plain, lambda v, g, rate, mu, old: rate * old)),
        ("velocity-decayed-after", "gradient and velocity are both multiplied by mu",
         _momentum(lambda v, g, rate, mu: mu * (v + g), _times_rate)),
        ("velocity-minus", "the velocity takes the gradient off",
         _momentum(lambda v, g, rate, mu: mu * v - g, _times_rate)),
        ("gradient-alone", "the step takes the gradient, not the velocity",
         _momentum(_plain, lambda v, g, rate, mu, old: rate * g)),
        ("ascent", "the velocity is added to the parameter", _momentum(_plain, lambda v, g, rate, mu, o: -rate * v)),
        ("rate-twice", "the rate is in the velocity and in the step",
         _momentum(lambda v, g, rate, mu: mu * v + rate * g, _times_rate)),
    ),
    "adagrad": (
        ("epsilon-inside", "epsilon is added to the sum of squares, inside the root",
         _adagrad(_squares, lambda a, g, rate, e, old: rate * g / np.sqrt(a + e))),
        ("epsilon-twice", "epsilon is added inside and outside the root",
         _adagrad(_squares, lambda a, g, rate, e, old: rate * g / (np.sqrt(a + e) + e))),
        ("epsilon-lost", "epsilon is not added", _adagrad(_squares, lambda a, g, rate, e, old: rate * g / np.sqrt(a))),
        ("epsilon-kept", "epsilon is kept in the sum of squares",
         lambda p, s, g, rate, t, o: _adagrad(lambda a, g, r: a + g * g + o["epsilon"], lambda a, g, r, e, old:
                                              r * g / np.sqrt(a))(p, s, g, rate, t, o)),
        ("initial-ignored", "the sum of squares starts from 0, not from its initial value",
         lambda p, s, g, rate, t, o: _adagrad(_squares, lambda a, g, r, e, old: r * g / (
             np.sqrt(np.maximum(a - o["initial"], 1e-300)) + e))(p, s, g, rate, t, o)),
        ("accumulator-old", "the root is of the sum of squares before this gradient",
         _adagrad(_squares, lambda a, g, rate, e, old: _by_root(old, g, rate, e, old))),
        ("no-root", "no root is taken of the sum of squares",
         _adagrad(_squares, lambda a, g, rate, e, old: rate * g / (a + e))),
        ("absolute", "absolute values are added up, not squares", _adagrad(lambda a, g, r: a + np.abs(g), _by_root)),
        ("squares-replaced", "the last square takes the place of the sum", _adagrad(lambda a, g, r: g * g, _by_root)),
        ("accumulated-twice", "each square is added twice", _adagrad(lambda a, g, r: a + 2 * g * g, _by_root)),
        ("not-accumulated", "squares are not added up: the initial value stays", _adagrad(lambda a, g, r: a, _by_root)),
        ("rmsprop", "the sum of squares is a moving average: that is RMSprop, by 0.9",
         _adagrad(lambda a, g, r: 0.9 * a + 0.1 * g * g, _by_root)),
        ("rmsprop", "the sum of squares is a moving average: that is RMSprop, by 0.99",
         _adagrad(lambda a, g, r: 0.99 * a + 0.01 * g * g, _by_root)),
        ("rate-accumulated", "squares of rate times gradient are added up",
         _adagrad(lambda a, g, r: a + r * r * g * g, _by_root)),
        ("squares-averaged", "the mean over a row of its squares is added up",
         _adagrad(lambda a, g, r: a + (g * g).mean(-1, keepdims=True), _by_root)),
        ("sgd", "the accumulator is not applied: this is sgd", _adagrad(_squares, lambda a, g, r, e, old: r * g)),
        ("ascent", "the gradient is added, not subtracted", _adagrad(_squares, lambda a, g, r, e, old:
                                                                   -_by_root(a, g, r, e, old))),
        ("sign-lost", "the gradient loses its sign", _adagrad(_squares, lambda a, g, r, e, old: _by_root(
            a, np.abs(g), r, e, old))),
    ),
    "adam": (
        ("epsilon-inside", "epsilon is added inside the root", _adam(step=lambda m, v, e, g, b1: m / np.sqrt(v + e))),
        ("epsilon-lost", "epsilon is not added", _adam(step=lambda m, v, e, g, b1: m / np.sqrt(v))),
        ("not-corrected", "neither moment is corrected", _adam(correct1=lambda t, b: 1, correct2=lambda t, b: 1)),
        ("first-not-corrected", "the first moment is not corrected", _adam(correct1=lambda t, b: 1)),
        ("second-not-corrected", "the second moment is not corrected", _adam(correct2=lambda t, b: 1)),
        ("correction-not-rooted", "the second moment's correction is applied outside the root",
         _adam(correct2=lambda t, b: (1 - b**t) ** 2)),
        ("corrected-by-beta", "corrections are 1 - beta in every step",
         _adam(correct1=lambda t, b: 1 - b, correct2=lambda t, b: 1 - b)),
        ("corrected-times-t", "corrections are 1 - t beta", _adam(correct1=lambda t, b: 1 - b * t, correct2=lambda t, b:
                                                                1 - b * t)),
        ("betas-swapped", "beta1 and beta2 are swapped", _adam(betas=lambda b1, b2: (b2, b1))),
        ("one-beta", "beta1 is used for both moments", _adam(betas=lambda b1, b2: (b1, b1))),
        ("one-beta", "beta2 is used for both moments", _adam(betas=lambda b1, b2: (b2, b2))),
        ("first-unscaled", "the gradient enters the first moment whole, not times 1 - beta1",
         _adam(first=lambda m, g, b: b * m + g)),
        ("second-unscaled", "the square enters the second moment whole, not times 1 - beta2",
         _adam(second=lambda v, g, b: b * v + g * g)),
        ("weights-swapped", "beta1 and 1 - beta1 are swapped", _adam(first=lambda m, g, b: (1 - b) * m + b * g)),
        ("weights-swapped", "beta2 and 1 - beta2 are swapped", _adam(second=lambda v, g, b: (1 - b) * v + b * g * g)),
        ("not-squared", "the second moment is of absolute values, not of squares",
         _adam(second=lambda v, g, b: b * v + (1 - b) * np.abs(g))),
        ("no-root", "no root is taken of the second moment", _adam(step=lambda m, v, e, g, b1: m / (v + e))),
        ("adamax", "the second moment is the largest absolute value, which falls by beta2: that is AdaMax",
         _adam(second=lambda v, g, b: np.maximum(b * v, np.abs(g)), correct2=lambda t, b: 1,
               step=lambda m, v, e, g, b1: m / (v + e))),
        ("gradient-alone", "the step takes the gradient, not the first moment",
         _adam(step=lambda m, v, e, g, b1: g / (np.sqrt(v) + e))),
        ("moment-old", "the step takes the first moment before this gradient", _adam_old("first")),
        ("moment-old", "the step takes the second moment before this gradient", _adam_old("second")),
        ("ascent", "the step is added, not subtracted", _adam(step=lambda m, v, e, g, b1: -m / (np.sqrt(v) + e))),
        ("first-moment-alone", "the second moment is not applied", _adam(step=lambda m, v, e, g, b1: m)),
    ),
}
"""optimizer -> (code, words, formula(p, state, g, rate, step, options)), in place."""


def _only(name, formula):
    def changed(right, machine, place):
        if machine.task["optimizer"] != name:
            raise Impossible
        return lambda optimizer, p, s, g, rate, t, o: formula(p, s, g, rate, t, _own_epsilon(optimizer, t, o))

    return changed


def _own_epsilon(optimizer, t, options):
    """Return the options of Adam as the paper writes it that give what TensorFlow's gives with these."""
    if optimizer != "adam-hat":
        return options
    return {**options, "epsilon": options["epsilon"] / np.sqrt(1 - options["beta2"] ** t)}


def _as(other):
    """Another optimizer in its place."""
    def changed(right, machine, place):
        if machine.task["optimizer"] in (other, "sgd"):
            raise Impossible
        return lambda optimizer, p, s, g, rate, t, o: apply(other, p, s, g, rate, t, o)

    return changed


def deviations() -> list[Deviation]:
    """Return a deviation for each formula. Local."""
    found = [Deviation(f"{name}-{code}", f"{name}: {words}", "formula", _only(name, formula))
             for name, formulas in FORMULAS.items() for code, words, formula in formulas]
    return [*found, Deviation("sgd-instead", "the optimizer is plain sgd", "formula", _as("sgd"))]
