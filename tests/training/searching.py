"""Trainings with a partition search whose clock is a curve: every run walks the same way, and says what it tried."""

from itertools import groupby
from pathlib import Path

from toys import WORKS, make_options

from refimpl.plan.partitions.search import Fit
from refimpl.training import session
from refimpl.transport import CollectiveError

SEARCH = dict(architecture="hybrid", search_partitions=True, search_warmup=1, search_sample=2, partitions=4, steps=18)
STEPS = SEARCH["search_warmup"] + SEARCH["search_sample"]
"""Of each sample."""
BEST_AT_6 = Fit(1.0, 36.0, 1.0)
WALK = [4, 8, 16, 2, 6]


class Searching:
    """Runs a toy's training again and again. Collective over ``comm``.

    path: the folder of all runs.  plans: those of the steps of the last run.  said: what it announced on rank 0.
    """

    def __init__(self, comm, monkeypatch, path: Path):
        self.comm, self.path, self.plans, self.said = comm, path, [], []
        monkeypatch.setattr(session.Session, "_timed_step", lambda running: self._timed_step(running.trainer))

    def _timed_step(self, trainer):
        self.plans.append(trainer.plan)
        return trainer.train_step(), BEST_AT_6.seconds(partitions_of(trainer.plan))

    def run(self, name="run", *, stop=None, resume=False, comm=None, every=1, **changes):
        """Train, with checkpoints in a folder; stop: the step after which rank 0's progress callback raises."""
        self.plans, self.said, directory = [], [], self.path / name

        def progress(record):
            if record["step"] == stop:
                raise KeyError("stopped")

        model, data, _ = WORKS["toy"]
        try:
            return session.train(model(), data(), comm=self.comm if comm is None else comm, output=directory,
                                 resume=directory if resume else None, checkpoint_every=every, progress=progress,
                                 announce=self.said.append,
                                 options=make_options("toy", "adam", **{**SEARCH, **changes}))
        except CollectiveError:
            if stop is None:
                raise
            return None

    @property
    def tried(self) -> list[tuple[int, int]]:
        """(P, steps with it) in their order."""
        return [(p, len(list(steps))) for p, steps in groupby(map(partitions_of, self.plans))]


def partitions_of(plan) -> int:
    """Return P of a plan whose largest variable has at least P rows."""
    return max(len(strategy.owners) for strategy in plan.strategies.values())
