"""How far two trainings of one model drift apart that differ in nothing but the number of ranks.

With a canonical allreduce they never do (DESIGN, I1). A ring adds in another order on another number of ranks: the
first step's difference is a rounding error, and each step builds on the numbers of the one before.
"""

from dataclasses import dataclass

import numpy as np

from refimpl.pictures.lines import Line, draw_lines
from refimpl.pictures.picture import Picture, figure_in_style, picture_of, table
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator
from refimpl.transport.waiting import PATIENCE_SECONDS, wait_all


@dataclass(frozen=True)
class Drift:
    """A training on ``ranks`` ranks beside the one on 1 rank, after each step.

    changed: part of all parameters that have other bits.  largest: the largest difference of any of them.
    losses: what it said of itself.
    """

    ranks: int
    changed: tuple[float, ...]
    largest: tuple[float, ...]
    losses: tuple[float, ...]


def measure_drift(build, options, comm, numbers=(2, 3, 4)) -> list[Drift]:
    """Train on 1 rank and on the first n ranks of ``comm`` for each n; return each beside the first. Collective.

    build() -> (model, data), called anew for each training.  The list is that of rank 0, empty elsewhere.
    Raises ValueError for more ranks than there are.
    """
    if not all(1 <= n <= comm.size for n in numbers):
        raise ValueError(f"drift on {', '.join(map(str, numbers))} ranks: there are 1 to {comm.size}")
    found: list[Drift] = []
    alone: list = []
    parts = [(n, comm.Split(int(comm.rank >= n), comm.rank)) for n in (1, *numbers)]
    for n, some in parts:
        if comm.rank < n:
            model, data = build()
            states, losses = _train(Trainer(model, data, options, Communicator(some)), options.steps)
            if comm.rank == 0:
                alone = alone or states
                found.append(Drift(n, *_apart(alone, states), tuple(losses)))
        # the ranks without a part sleep meanwhile: a barrier that polls would take the cores from the others
        wait_all([comm.Ibarrier()], PATIENCE_SECONDS, comm.rank, [], "a training on fewer ranks")
        some.Free()
    return found[1:]


def _train(trainer: Trainer, steps: int):
    """Return rank 0's parameters after each step, as one flat array each, and the losses."""
    states, losses = [], []
    for _ in range(steps):
        losses.append(trainer.train_step()["loss"])
        values = [trainer.parameters.collect(v.name, None, False, "report") for v in trainer.model.variables]
        states.append(None if trainer.comm.rank else np.concatenate([value.ravel() for value in values]))
    return states, losses


def _apart(alone, states):
    """Return (part of the parameters with other bits, largest difference) after each step."""
    changed = tuple(float((a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}")).mean()) for a, b in zip(alone, states))
    return changed, tuple(float(abs(a - b).max()) for a, b in zip(alone, states))


def draw_drift(trainings: dict[str, list[Drift]]) -> Picture:
    """Draw the part of the parameters that have other bits than on 1 rank, step by step: title -> trainings. Local."""
    curves: dict[tuple, list[str]] = {}  # equal ones are drawn once, under all their names
    for title, drifts in trainings.items():
        for drift in drifts:
            curves.setdefault(tuple(drift.changed), []).append(f"{title}, {drift.ranks} ranks")
    with figure_in_style(7.6, 4.0) as (figure, axes):
        draw_lines(axes, [Line("; ".join(names), range(1, len(changed) + 1), [100 * part for part in changed], number)
                          for number, (changed, names) in enumerate(curves.items())],
                   "step", "parameters with other bits, %")
        axes.set_ylim(bottom=-0.03 * max(1, *axes.get_ylim()))
        figure.legend(loc="outside lower center")
        last = [(f"{title} on {d.ranks} ranks", d) for title, line in trainings.items() for d in line]
        steps = len(last[0][1].changed)
        alt = f"After {steps} steps, parameters with other bits than on 1 rank: " + "; ".join(
            f"{name} {d.changed[-1]:.1%}" for name, d in last)
        rows = [[name, f"{d.changed[0]:.2%}", f"{d.changed[-1]:.2%}", f"{d.largest[-1]:.2g}"] for name, d in last]
        heads = ["training", "after 1 step", f"after {steps}", "largest difference"]
        return picture_of(figure, alt, table(heads, rows))
