"""Learning-rate schedules: the rate of a step as a function of its number."""

import math

RATES = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),  # half a cosine: Loshchilov & Hutter 2017
    "inverse-sqrt": lambda progress: 1.0 / math.sqrt(1.0 + 99.0 * progress),  # falls to a tenth at the end
    "one-cycle": lambda progress: (0.1 + 2.0 * min(progress, 0.9 - progress) if progress <= 0.9 else
                                   0.1 - 0.99 * (progress - 0.9)),  # up from a tenth, down to a thousandth: Smith 2018
}
"""Schedule -> function of the progress after the warm-up, 0 to 1, that returns a factor of the base rate."""


def rate_of(step: int, *, base: float, rate: str | list, warmup: int, steps: int) -> float:
    """Return the learning rate of ``step`` (from 0): linear warm-up to ``base`` over ``warmup`` steps, then ``rate``.

        rate(step) = base * (step + 1) / warmup            for step < warmup
        rate(step) = base * RATES[rate](p),  p = (step - warmup) / (steps - warmup), at most 1, afterwards
        rate(step) = base * rate[step]                     if rate is a list of factors; after its end its last one
    """
    if not isinstance(rate, str):
        return base * rate[min(step, len(rate) - 1)]
    if step < warmup:
        return base * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, steps - warmup))
    return base * RATES[rate](progress)
