"""Pictures of training without barriers: when workers compute and wait, and the staleness of gradients."""

from collections import Counter
from dataclasses import dataclass

from refimpl.pictures.picture import BLUE, ORANGE, Picture, figure_in_style, picture_of, plain_axis, table
from refimpl.plain.without_barriers.owner import Owner

LOOKS = {"computing": (BLUE, ""), "computed, then dropped": (ORANGE, "xxxx"), "waiting": ("#e4e4e4", "////")}
"""What a worker does -> colour and hatch."""


class Watched(Owner):
    """An owner that records what a picture needs.

    applied: for each update (pushes so far, [(worker, clock)] of the applied ones, ``staleness`` after it).
    history: {name: values} before the first update and after each.
    """

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.applied, self.history = [], [self._copied()]

    def update(self, pushes):
        """Do an update, and record it. Local."""
        super().update(pushes)
        self.applied.append((sum(self.clocks), [(push.worker, push.clock) for push in pushes], Counter(self.staleness)))
        self.history.append(self._copied())

    def _copied(self) -> dict:
        return {name: values.copy() for name, values in self.values.items()}


@dataclass(frozen=True)
class DrawnStep:
    """A worker's step ``clock``, from its pull to its push. applied: whether its push was applied."""

    worker: int
    clock: int
    begin: float
    end: float
    applied: bool


@dataclass(frozen=True)
class DrawnTraining:
    """A training: its steps in the order of their pushes, the times of the owner's updates, and ages after each.

    ages: {updates between pull and use: number of gradients}, since the beginning.
    """

    steps: tuple[DrawnStep, ...]
    updates: tuple[float, ...] = ()
    ages: tuple[Counter, ...] = ()

    @property
    def workers(self) -> int:
        """The number of workers."""
        return 1 + max(step.worker for step in self.steps)

    def applied(self, until: float) -> int:
        """Return the number of gradients that were applied until this time. Local."""
        return sum(step.applied for step in self.steps if step.end <= until)

    def staleness(self, until: float) -> Counter:
        """Return the ages of the gradients that were applied until this time, at least one. Local."""
        return self.ages[sum(time <= until for time in self.updates) - 1]

    def waits(self, worker: int, until: float) -> list[tuple[float, float]]:
        """Return the intervals in which a worker waited, between a push and its next pull, cut at ``until``. Local."""
        own = [step for step in self.steps if step.worker == worker]
        return [(before.end, min(after.begin, until)) for before, after in zip(own, own[1:])
                if before.end < min(after.begin, until)]


def seen(happened, owner: Watched | None = None) -> DrawnTraining:
    """Return a training for pictures. Local.

    happened: of ``refimpl.plain.without_barriers.scripted_clock.run``.
    owner: the training's only owner; None: updates are not drawn.
    """
    taken = None if owner is None else {push for _, pushes, _ in owner.applied for push in pushes}
    begun, steps = {}, []
    for time, what, worker, clock in happened:
        if what == "pull":
            begun[worker] = time
        else:
            steps.append(DrawnStep(worker, clock, begun[worker], time, taken is None or (worker, clock) in taken))
    applied = owner.applied if owner else ()
    return DrawnTraining(tuple(steps), tuple(steps[come - 1].end for come, *_ in applied),
                         tuple(ages for *_, ages in applied))


def draw_workers(trainings: dict[str, DrawnTraining], until: float, unit: str = "seconds") -> Picture:
    """Draw the first ``until`` seconds of trainings, a lane for each worker: steps, waiting, updates. Local."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    lanes = {title: training.workers + bool(training.updates) for title, training in trainings.items()}
    heights = [0.5 + 0.2 * count for count in lanes.values()]
    with figure_in_style(8.6, 0.9 + sum(heights), nrows=len(trainings), sharex=True, squeeze=False,
                         gridspec_kw={"height_ratios": heights}) as (figure, grid):
        for axes, (title, training) in zip(grid[:, 0], trainings.items()):
            _draw_lanes(axes, training, until)
            axes.set_title(title)
        grid[-1, 0].set(xlim=(0, until), xlabel=unit)
        used = {"computing"} | {_look(step) for training in trainings.values() for step in training.steps}
        used |= {"waiting" for training in trainings.values() for w in range(training.workers)
                 if training.waits(w, until)}
        keys = [Patch(facecolor=LOOKS[what][0], hatch=LOOKS[what][1], edgecolor="white", label=what)
                for what in LOOKS if what in used]
        if any(training.updates for training in trainings.values()):
            keys.append(Line2D([], [], color="black", marker="^", ls="", label="updates (number: several at once)"))
        figure.legend(handles=keys, loc="outside lower center", ncols=len(keys))
        return picture_of(figure, _said(trainings, until, unit), _numbers(trainings, until, unit))


def _look(step: DrawnStep) -> str:
    return "computing" if step.applied else "computed, then dropped"


def _draw_lanes(axes, training: DrawnTraining, until: float):
    """Draw one training: boxes with the numbers of steps, hatched waiting between them, updates below."""
    for step in training.steps:
        if step.begin < until:
            colour, hatch = LOOKS[_look(step)]
            axes.barh(step.worker, step.end - step.begin, 0.8, left=step.begin, color=colour, hatch=hatch,
                      edgecolor="white", linewidth=0.8)
            axes.text((step.begin + min(step.end, until)) / 2, step.worker, step.clock, ha="center", clip_on=True,
                      va="center_baseline", fontsize=8, fontweight="bold", color="white" if step.applied else "black")
    colour, hatch = LOOKS["waiting"]
    for worker in range(training.workers):
        for begin, end in training.waits(worker, until):
            axes.barh(worker, end - begin, 0.8, left=begin, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
    lanes = training.workers + bool(training.updates)
    for time, count in Counter(training.updates).items():
        if time <= until:
            axes.plot(time, training.workers, "^", color="black", markersize=5, clip_on=False)
            axes.annotate(count if count > 1 else "", (time, training.workers), (4, 0), textcoords="offset points",
                          va="center", fontsize=8, annotation_clip=False)
    names = [f"worker {worker}" for worker in range(training.workers)] + ["owner"]
    axes.set_yticks(range(lanes), names[:lanes], fontsize=9)
    axes.set_ylim(lanes - 0.5, -0.5)
    plain_axis(axes, "y")


def _waited(training: DrawnTraining, until: float) -> list[float]:
    """Return the waiting times of the workers."""
    return [sum(end - begin for begin, end in training.waits(worker, until)) for worker in range(training.workers)]


def _said(trainings, until, unit) -> str:
    return f"The first {until:.3g} {unit} of workers: " + "; ".join(
        f"{title}, {training.applied(until)} gradients applied, "
        f"{sum(not step.applied for step in training.steps if step.end <= until)} dropped, workers wait "
        f"{sum(_waited(training, until)) / until / training.workers:.0%} of the time"
        for title, training in trainings.items())


def _numbers(trainings, until, unit) -> str:
    rows = []
    for title, training in trainings.items():
        for worker, waited in enumerate(_waited(training, until)):
            own = [step for step in training.steps if step.worker == worker and step.end <= until]
            rows.append([title, worker, len(own), sum(step.applied for step in own), f"{waited:.3g}"])
    return table(["", "worker", "steps", "applied", f"{unit} of waiting"], rows)
