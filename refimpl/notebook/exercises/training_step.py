"""Exercises of lesson 0: a step of SGD, a gradient by hand, the gradient of unequal parts."""

import numpy as np

from refimpl.notebook.exercises import answered, exercise, number, right, wrong

SIZES = (10, 4, 2)


check_step = number(2.95, "0.1 times 0.5 less than before.", {
    3.05: "the gradient points uphill: a step goes the other way", 2.5: "multiply by the rate, too",
    2.9: "how far the step goes depends on the derivative, too",
}, "parameter - rate * derivative", apart=1e-5)
"""A parameter of 3.0 after a step of SGD with derivative 0.5 and rate 0.1."""


@exercise
def check_gradient(function):
    """Check the gradient of the mean of (s x + c + q x² - y)² in s, c, q against finite differences."""
    random = np.random.default_rng(0)
    x, y, parameters = *random.uniform(0.5, 4, (2, 16)), random.standard_normal(3)

    def loss(parameters):
        s, c, q = parameters
        return np.mean((s * x + c + q * x**2 - y) ** 2)

    found = [answered(value) for value in answered(function(parameters, x, y))]
    if len(found) != 3 or any(np.ndim(value) for value in found):
        return wrong("a gradient has one number for each of the three parameters: the mean over the examples")
    h = 1e-5
    for name, value, step in zip("scq", found, h * np.eye(3)):
        wanted = (loss(parameters + step) - loss(parameters - step)) / (2 * h)
        if not np.isclose(value, wanted, rtol=1e-5):
            return wrong(f"for {name} finite differences give {wanted:.4f}, and you {value:.4f}"
                         f"{_near(value, wanted)}")
    return right("it agrees with finite differences for all three parameters.")


def _near(value, wanted):
    factors = {0.5: "what does the square become?", 16: "the loss is a mean, not a sum", -1: "error = prediction - y"}
    return next((f": {hint}" for factor, hint in factors.items() if np.isclose(value, factor * wanted)), "")


@exercise
def check_combine(combine):
    """Check a function that returns the mean gradient of a batch from those of parts of 10, 4 and 2 examples."""
    each = np.random.default_rng(0).standard_normal((sum(SIZES), 2))
    means = [part.mean(axis=0) for part in np.split(each, np.cumsum(SIZES)[:-1])]
    found = np.asarray(answered(combine(means, list(SIZES))), float)
    wanted = each.mean(axis=0)
    if found.shape == wanted.shape and np.allclose(found, wanted):
        return right("every example counts once, whichever machine has it.")
    if np.allclose(found, np.mean(means, axis=0)):
        return wrong("in this mean every machine counts the same: the last one's two examples as much as ten")
    if np.allclose(found, wanted * sum(SIZES)):
        return wrong("that is the sum over all examples: the mean divides it by their number")
    return wrong("how do you get the sum of a part from its mean and its size?")
