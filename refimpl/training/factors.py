"""A learning rate given as a function, or as a scheduler of PyTorch, becomes the list of its factors: plain data."""

import math
import warnings

from refimpl.training.expected import OWN_LOOP

MOST_STEPS = 1 << 20
"""The longest list of factors. config.json and each checkpoint contain it."""


def factors_of(rate, steps, base, warmup):
    """Return the factor of ``base`` in each step, for a function or a scheduler; other rates are not changed. Local.

    Raises ValueError for a scheduler that needs a metric or changes more than the rate, for factors that are not
    numbers of at least 0, and if there is also a warm-up.
    """
    if isinstance(rate, type) or not (callable(rate) or hasattr(rate, "get_last_lr") or isinstance(rate, list)):
        return rate
    if warmup:
        raise ValueError(f"warmup is {warmup}, but rate already says the factor of each step: leave warmup out")
    if not isinstance(steps, int) or steps > MOST_STEPS:
        raise ValueError(f"a rate that is a function is kept as a factor for each of {steps} steps, and the limit is "
                         f"{MOST_STEPS}: give the name of a rate, and rate_steps; {OWN_LOOP}")
    if hasattr(rate, "get_last_lr"):
        found = _scheduled(rate, steps, base)
    else:
        found = rate if isinstance(rate, list) else [rate(step) for step in range(max(1, steps))]
    for step, factor in enumerate(found):
        if not isinstance(factor, (int, float)) or isinstance(factor, bool) or not 0 <= factor < math.inf:
            raise ValueError(f"the rate of step {step} is {factor!r:.50}: it must be a number of at least 0, a factor "
                             "of learning_rate")
    return list(map(float, found))


def _scheduled(scheduler, steps, base) -> list[float]:
    """Return the factors of an ``lr_scheduler``. It is stepped, and then put back into its state."""
    name, optimizer = type(scheduler).__name__, scheduler.optimizer
    if not hasattr(scheduler, "last_epoch") or name == "ReduceLROnPlateau":
        raise ValueError(f"{name} needs the loss of each step: {OWN_LOOP}")
    kept, before = scheduler.state_dict(), [dict(group) for group in optimizer.param_groups]
    starts, found = [group["initial_lr"] for group in before], []
    if base not in starts:
        raise ValueError(f"learning_rate is {base}, and {name} begins at {', '.join(map(str, starts))}: say the same "
                         "learning_rate, and give groups of other rates to the model")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch wants optimizer.step() before
            for _ in range(max(1, steps)):
                found.append([group["lr"] / start for group, start in zip(optimizer.param_groups, starts)])
                scheduler.step()
        now = [dict(group) for group in optimizer.param_groups]
    finally:
        scheduler.load_state_dict(kept)
        for group, was in zip(optimizer.param_groups, before):
            group |= was
    others = sorted({key for was, one in zip(before, now) for key in was if key not in ("lr", "params")
                     if was[key] != one[key]})
    if others:
        raise ValueError(f"{name} changes {', '.join(others)}, too, which must be the same in all steps: say "
                         f"cycle_momentum=False; {OWN_LOOP}")
    if any(not math.isclose(factor, each[0], rel_tol=1e-12) for each in found for factor in each):
        raise ValueError(f"{name} changes the rates of its groups by different factors, but a training has one "
                         f"schedule: {OWN_LOOP}")
    return [each[0] for each in found]
