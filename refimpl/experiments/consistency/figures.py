"""Compute the numbers for comparison from a training's records."""

from collections import Counter

import numpy as np

from refimpl.plain.without_barriers.consistencies import Backup, consistency
from refimpl.training.consistency.served.record import bare_owner


def speed(steps, text: str, planned: int, warm: int = 1) -> float:
    """Return examples/s while all workers work: after ``warm`` steps of each, until the first one has finished.

    steps: see ``train_once``.  text: the consistency.  planned: the steps of the training. Gradients that owners
    dropped do not count. Local.
    """
    ends = {worker: [at for who, _, at, _, _ in steps if who == worker] for worker in {step[0] for step in steps}}
    examples = {worker: count for worker, _, _, _, count in steps}
    begin, end = max(at[min(warm, len(at)) - 1] for at in ends.values()), min(at[-1] for at in ends.values())
    total = 0.0
    for worker, at in ends.items():
        within = [moment for moment in at if begin <= moment <= end]
        pace = (len(within) - 1) / (within[-1] - within[0]) if len(within) > 1 else len(at) / at[-1]
        total += pace * examples[worker]
    return total * used(text, len(ends), planned, len(steps))


def used(text: str, workers: int, planned: int, pushed: int) -> float:
    """Return the part of the gradients that owners did not drop. pushed: the number of all gradients. Local."""
    rule = consistency(text, workers, planned)
    return min(1.0, planned * (workers - rule.number) / pushed) if isinstance(rule, Backup) else 1.0


def versions_late(entries, text: str, steps: int) -> Counter:
    """Return staleness τ -> the number of pushes with it: τ is the owner's updates between pull and push. Local.

    entries: owner -> its event log.  steps: of the training. Pushes after one worker's last step do not count.
    """
    found: Counter = Counter()
    for one in entries:
        account = bare_owner(text, len(entries), steps)
        for worker in one:
            if max(account.clocks) == steps:
                break
            if worker in account.pulled:
                found[account.version - account.seen[worker]] += 1
                account.push(worker, {})
            else:
                account.pull(worker, {})
    return found


def mean_and_most(histogram: Counter) -> tuple[float, int]:
    """Return the mean, and the number that 95 % do not exceed. histogram: number -> how often. Local."""
    if not histogram:
        return 0.0, 0
    numbers = np.repeat(list(histogram), list(histogram.values()))
    return float(numbers.mean()), int(np.quantile(numbers, 0.95, method="inverted_cdf"))


def loss_curve(steps, workers: int, every: int = 1) -> list[list[float]]:
    """Return [passes, seconds, loss]: after each ``every`` passes, the mean loss of the workers' steps in it. Local.

    passes: steps of workers / N: a synchronous step is one.
    """
    width, points = workers * every, []
    for first in range(0, len(steps) - width + 1, width):
        some = steps[first:first + width]
        points.append([(first + width) / workers, some[-1][2], float(np.mean([loss for *_, loss, _ in some]))])
    return points


def reached(curve, goal: float | None) -> str:
    """Return the seconds after which a curve reaches a loss, as text; "-": never. Local."""
    return next((f"{seconds:.2f}" for _, seconds, loss in curve if goal is not None and loss <= goal), "-")
