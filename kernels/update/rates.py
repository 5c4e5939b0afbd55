"""Learning-rate schedules: the rate of a step as a pure function of its number."""

import math


def constant(progress: float) -> float:
    return 1.0


def linear(progress: float) -> float:
    """Fall to zero in a straight line."""
    return 1.0 - progress


def cosine(progress: float) -> float:
    """Fall to zero along half a cosine (Loshchilov & Hutter 2017)."""
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def inverse_sqrt(progress: float) -> float:
    """Fall as 1/sqrt(1 + 99 p), to a tenth at the end."""
    return 1.0 / math.sqrt(1.0 + 99.0 * progress)


RATES = {"constant": constant, "linear": linear, "cosine": cosine, "inverse-sqrt": inverse_sqrt}


def rate_of(step: int, *, base: float, rate: str, warmup: int, steps: int) -> float:
    """Return the learning rate of ``step`` (from 0): linear warm-up to ``base`` over ``warmup`` steps, then ``rate``.

    rate(step) = base * (step + 1) / warmup            for step < warmup
    rate(step) = base * RATES[rate](p),  p = (step - warmup) / (steps - warmup), at most 1, after it
    """
    if step < warmup:
        return base * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, steps - warmup))
    return base * RATES[rate](progress)
