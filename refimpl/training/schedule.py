"""Checks the length of the learning rate's schedule. No step has the rate 0 unless the user asks for it."""

from kernels.update.rates import RATES
from refimpl.plain.without_barriers.consistencies import Backup, Softsync, consistency, is_decentralised


def updates_of(options, ranks: int) -> int:
    """Return the number of updates in a training, by which the learning rate is computed. Local.

    These are its steps; without barriers, the updates that an owner does with the pushes of all workers. Raises
    ValueError for an unknown consistency.
    """
    if is_decentralised(options.consistency):
        return options.steps
    rule = consistency(options.consistency, ranks, options.steps)
    if isinstance(rule, Backup):  # synchronous is one
        return options.steps
    return options.steps * ranks // (ranks // rule.number if isinstance(rule, Softsync) else 1)


def lengthens(before, now, ranks: int) -> bool:
    """Return whether options make a schedule longer that would otherwise end before their last update. Local."""
    return before.rate == now.rate and before.rate_steps < min(now.rate_steps, updates_of(now, ranks))


def check_schedule(options, ranks: int):
    """Raise ValueError, with the right length, if the schedule reaches 0 before the last update. Local."""
    updates, end = updates_of(options, ranks), max(options.rate_steps, options.warmup + 1)
    if not isinstance(options.rate, str):
        if updates > len(options.rate):
            raise ValueError(f"the rate was given for {len(options.rate)} steps, and the training has {updates} "
                             "updates: give it for all of them")
        return
    if updates <= end or RATES[options.rate](1.0) or not options.learning_rate:
        return
    where = (f"step {end}, and the training has {updates} steps" if updates == options.steps else
             f"update {end} of an owner, which with --consistency {options.consistency} does {updates} updates")
    raise ValueError(f"the {options.rate} schedule of the learning rate reaches 0 after {where}: give --rate-steps "
                     f"{updates} to make it last until then")
