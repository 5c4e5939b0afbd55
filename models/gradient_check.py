"""Check hand-written gradients: compare directional derivatives in random directions with central differences.

For a random direction v the gradient g must satisfy  g . v = d/dh loss(x + h v) at h = 0.  The right side is measured
with central differences at steps h, h/4, h/16, ... and extrapolated to h = 0 (Ridders 1982, "Accurate computation of
F'(x) and F'(x)F''(x)"). The tolerance is not guessed. It is the sum of the measurement's two errors:

- truncation: the difference of the extrapolated value between neighbours in Ridders' table;
- cancellation: noise / h, times the weights of the extrapolation. The noise of one loss evaluation is measured by third
  differences over tiny steps, which vanish for a smooth loss (Moré, Wild 2011, "Estimating computational noise").
"""

import copy
import dataclasses

import numpy as np

from kernels import RowGradient, to_numpy
from kernels.random import key_of, uniform

LARGEST_STEP = 2.0**-5
STEP_RATIO = 4.0  # exact in binary, so that h itself is never rounded
STEPS = 9  # down to 2**-21, below which cancellation always loses
SAFETY = 4.0  # both parts of the tolerance are estimates from a few samples, not bounds
RESOLUTION = 1e-4  # a tolerance above this part of the derivative's typical size could hide a wrong gradient


class GradientError(AssertionError):
    """A gradient disagrees with its loss."""


def check_gradients(model, batch, seed: int = 0, projections: int = 2, spread: float = 0.1) -> dict:
    """Compare the model's gradients with differences of its loss, for each variable and all together. Local.

    model: its variables have dtype float64.  batch: is not changed.  seed: of initial values and directions.
    spread: initial values are moved by up to this much, because a zero (a bias, a gain) can hide a missing term.
    Returns name -> (derivative by the gradient, by differences, tolerance) of the last projection; the key "" means all
    variables together. Raises GradientError, which names the variable and both numbers; ValueError if not float64.
    """
    point, needed = starting_point(model, batch, seed, spread)
    _, gradients = evaluate_at(model, batch, point, needed)
    slopes = {name: gradient_at(name, value, gradients, needed) for name, value in point.items()}
    for name in set(gradients) - set(point) - {v.name for v in model.variables}:
        raise GradientError(f"gradient of {name!r}, which is no variable of the model")
    groups = {**{name: [name] for name in point}, "": list(point)}  # the last group covers how the variables interact
    result = {}
    for label, names in groups.items():
        for projection in range(projections):
            direction = {n: random_direction(key_of(seed, "direction", label, projection, n), point[n]) for n in names}
            result[label] = compare(model, batch, point, needed, slopes, direction, label)
    return result


def starting_point(model, batch, seed, spread):
    """Return (name -> value, the pulled rows for a sparse variable; name -> needed ids) to differentiate at."""
    needed = {name: to_numpy(ids) for name, ids in model.rows_needed(batch).items()}
    point = {}
    for variable in model.variables:
        if np.dtype(variable.dtype) != np.float64:
            raise ValueError(f"variable {variable.name!r} is {variable.dtype}: differences need a float64 model")
        value = variable.initial_value(seed)
        if variable.sparse:
            value = value[needed[variable.name]]
        offset = random_direction(key_of(seed, "offset", variable.name), value)
        point[variable.name] = value if variable.statistic else value + spread * offset
    return point, needed


def evaluate_at(model, batch, point, needed):
    """Return the model's (loss, gradients), computed with a copy of the batch's state."""
    fresh = dataclasses.replace(batch, state=copy.deepcopy(batch.state))
    dense = {name: value for name, value in point.items() if name not in needed}
    rows = {name: point[name] for name in needed}
    return model.loss_and_gradients(dense, rows, fresh)


def gradient_at(name, value, gradients, needed):
    """Return the gradient in the shape of ``value``; row gradients are put at the indices of the pulled rows."""
    if name not in gradients:
        raise GradientError(f"{name!r}: the model returned no gradient")
    gradient = gradients[name]
    if name in needed:
        if not isinstance(gradient, RowGradient):
            raise GradientError(f"{name!r} is sparse, but its gradient is a {type(gradient).__name__}")
        where = np.searchsorted(needed[name], gradient.ids)
        if not np.array_equal(needed[name][np.minimum(where, len(needed[name]) - 1)], gradient.ids):
            raise GradientError(f"{name!r}: the gradient has rows that rows_needed did not name")
        laid_out = np.zeros_like(value)
        laid_out[where] = to_numpy(gradient.rows)
        return laid_out
    if gradient.shape != value.shape:
        raise GradientError(f"{name!r}: gradient of shape {gradient.shape} for a variable of shape {value.shape}")
    return to_numpy(gradient)


def random_direction(key, value):
    """Return a direction of independent elements uniform in [-1, 1): shape of ``value``."""
    return 2.0 * uniform(key, value.size).reshape(value.shape) - 1.0


def compare(model, batch, point, needed, slopes, direction, label):
    """Return (by gradient, by differences, tolerance) along one direction; raise GradientError if they disagree."""

    def loss(h):
        moved = {n: value + h * direction[n] if n in direction else value for n, value in point.items()}
        return float(evaluate_at(model, batch, moved, needed)[0])

    statistics = {v.name for v in model.variables if v.statistic}  # their "gradient" is an estimate
    trained = [n for n in direction if n not in statistics]
    by_gradient = float(sum(np.vdot(slopes[n], direction[n]) for n in trained))
    if not trained:
        return by_gradient, by_gradient, 0.0
    by_differences, tolerance = ridders(loss)
    where = f"gradient of {label!r}" if label else "gradient of all variables together"
    if not abs(by_gradient - by_differences) <= tolerance:
        raise GradientError(f"{where}: {by_gradient!r} by the gradient, {by_differences!r} by central differences "
                            f"(they differ by {abs(by_gradient - by_differences):.3g}, tolerance {tolerance:.3g})")
    size = np.sqrt(sum(float(np.vdot(slopes[n], slopes[n])) for n in trained) / 3.0)  # its standard deviation
    if not tolerance <= RESOLUTION * size and size > 0:
        raise GradientError(f"{where}: differences are only good to {tolerance:.3g} where the derivative is about "
                            f"{size:.3g}; the loss is not smooth or not computed in float64 there")
    return by_gradient, by_differences, tolerance


def ridders(f):
    """Return (f'(0), tolerance): the entry of Ridders' table with the least error estimate, and SAFETY times this."""
    noise = evaluation_noise(f)
    best, best_error = np.nan, np.inf
    above = []
    for i in range(STEPS):
        h = LARGEST_STEP / STEP_RATIO**i
        row = [(f(h) - f(-h)) / (2.0 * h)]
        roundoff = noise / h
        for j in range(1, i + 1):
            factor = STEP_RATIO ** (2 * j)
            row.append((factor * row[j - 1] - above[j - 1]) / (factor - 1.0))
            roundoff *= (factor + 1.0 / STEP_RATIO) / (factor - 1.0)  # the row above has 1/STEP_RATIO the noise
            error = max(abs(row[j] - row[j - 1]), abs(row[j] - above[j - 1])) + roundoff
            if error < best_error:
                best, best_error = row[j], error
        above = row
    return best, SAFETY * best_error


def evaluation_noise(f, points: int = 9, step: float = 2.0**-40):
    """Return the standard deviation of the rounding error of one evaluation of f, at least half an ULP of f."""
    values = np.array([f(k * step) for k in range(points)])
    third = np.diff(values, 3)  # of independent noise s: deviation s * sqrt(20)
    return max(float(np.sqrt(np.mean(third**2) / 20.0)), float(np.spacing(np.abs(values).max())) / 2.0)
