"""Workers whose gradients can be written down, and trainings of them by a scripted clock."""

import numpy as np

from kernels import RowGradient
from models import Constant, Variable
from refimpl.plain.training.hybrid import Options
from refimpl.plain.without_barriers.owner import Owner
from refimpl.plain.without_barriers.scripted_clock import run


class Spring:
    """f = λ w² / 2 of each element: the gradient is λ w, and this worker's part of the mean λ / N w.

    curvature: λ, a number or one of each element.
    """

    def __init__(self, curvature, workers):
        self.part = np.asarray(curvature, np.float64) / workers

    def needs(self, clock):
        return {}

    def gradients(self, clock, values):
        return {"w": self.part * values["w"]}


class Rows:
    """Pushes gradient 1 for its rows of the table, rows[clock mod their number]."""

    def __init__(self, *rows):
        self.rows = [np.array(some) for some in rows]

    def needs(self, clock):
        return {"table": self.rows[clock % len(self.rows)]}

    def gradients(self, clock, values):
        ids = self.rows[clock % len(self.rows)]
        return {"table": RowGradient(ids, np.ones((len(ids), 1)))}


class Watched(Owner):
    """An owner that notes all versions of its values: ``history[version]``."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.history = [self.values["w"].copy()]

    def update(self, pushes):
        super().update(pushes)
        self.history.append(self.values["w"].copy())


def options(optimizer="sgd", rate=1.0, **others):
    return Options(optimizer, rate, **others)


def springs(rule, curvatures, steps, seconds, *, rate=1.0, optimizer="sgd", correction="none", initial=1.0, kind=Watched):
    """Train one dense variable; return (its owner, what happened). correction: a name, or a correction itself."""
    shares = [Spring(curvature, len(curvatures)) for curvature in curvatures]
    variables = [Variable("w", shares[0].part.shape or (1,), dtype="float64", initial=Constant(initial))]
    owner = kind(0, 1, len(shares), steps, variables, options(optimizer, rate), rule,
                 correction if isinstance(correction, str) else "none")
    if not isinstance(correction, str):
        owner.correction = correction
    return owner, run([owner], shares, variables, seconds)


def random_clock(seed, workers, slowest=1.0):
    """Seconds of each worker's steps, at random; those of one worker up to so many times as long."""
    rng = np.random.default_rng(seed)
    table = rng.uniform(1, 3, (workers, 1000))
    table[rng.integers(workers)] *= slowest
    return lambda worker, clock: table[worker, clock]
