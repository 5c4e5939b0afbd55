"""A training without barriers from its beginning to its end, on all ranks or from its record; what it leaves behind.
"""

import json
import math
from contextlib import nullcontext
from pathlib import Path

from refimpl.training.consistency.served.orders import Recorded
from refimpl.training.consistency.served.record import Record, check_possible, entries_of, write_record
from refimpl.training.consistency.served.recorded_run import RecordedRun
from refimpl.training.consistency.served.replay import replay_alone
from refimpl.training.consistency.replicas.run import run_decentralised
from refimpl.training.consistency.served.without_barriers import WithoutBarriers
from refimpl.training.run.whole import hashes


def train_decentralised(trainer, totals, progress, between, warm: int = 2, watch=nullcontext):
    """Do a training whose ranks have replicas of their own; see ``train_without_barriers``. Collective."""
    with watch(trainer):
        steps = run_decentralised(trainer, progress)
    totals.add_stretch(steps, _warm(steps, warm, trainer.comm.size))
    between(steps, True)


def train_without_barriers(trainer, totals, progress, between, every=(), asked=lambda: False, warm: int = 2,
                           watch=nullcontext) -> "Left":
    """Do a training, or the rest of one; count it in ``totals``, and return what owners leave. Collective.

    progress: called on rank 0 with the metrics of each of its worker's steps.  between: called with the metrics of all
    workers' steps, in their order in time, and whether all have done theirs, at each cut and at the end.
    every: so many steps of rank 0's worker are between two cuts; None: no cut.  asked: whether this rank wants one now.
    watch: ``watch(trainer)`` returns the context in which the steps between two cuts are done.
    """
    training = WithoutBarriers(trainer.model, trainer.data, trainer.options, trainer.parameters, trainer.timeline)
    training.serving.worker.carried = trainer.carried
    training.begin(trainer.found_in_flight)
    trainer.in_flight, trainer.found_in_flight, since, first = training.in_flight, {}, training.seconds, True
    while not training.ended:
        due = [cut for each in every if each and (cut := (trainer.step // each + 1) * each) < trainer.options.steps]
        with watch(trainer):
            steps = stretch(trainer, training, progress, min(due, default=math.inf), asked)
        totals.add_stretch(steps, _warm(steps, warm, trainer.comm.size, since) if first else since)
        between(steps, training.ended)
        since, first = training.seconds, False
        trainer.comm.ledger.clear()
    return left_by(training)


def stretch(trainer, training: WithoutBarriers, progress=None, until=math.inf, asked=lambda: False) -> list[dict]:
    """Go on to a cut, or to the end; return the metrics of all workers' steps, in their order in time. Collective.

    The ledger counts what comes and goes. The same on every rank. until, asked: see ``WithoutBarriers.run``.
    """
    comm, mine = trainer.comm, []

    def note(metrics):
        mine.append(metrics)
        if progress is not None and comm.rank == 0:
            progress(metrics)

    try:
        training.run(note, until, asked)
    except BaseException as problem:
        comm.stop(problem)
    steps = int(comm.gather_numbers([training.steps], "the steps of rank 0's worker")[0, 0])
    trainer.step = trainer.options.steps if training.ended else steps
    trainer.carried = training.serving.worker.carried
    told = [metrics for text in comm.share_text(json.dumps(mine)) for metrics in json.loads(text)]
    return sorted(told, key=lambda metrics: (metrics["at"], metrics["worker"]))


def _warm(steps, warm, workers, begun=0.0) -> float:
    """Return when every worker had done ``warm`` of these steps; if some have not, when they began."""
    times = [[metrics["at"] for metrics in steps if metrics["worker"] == worker][:warm] for worker in range(workers)]
    return max((at[-1] for at in times if at), default=begun) if all(len(at) == warm for at in times) else begun


def train_by_record(trainer, totals, progress, between, replay: RecordedRun, watch=nullcontext) -> "Left":
    """Do a training once more, by its record; see ``train_without_barriers``. Collective.

    Raises CollectiveError, too, where it does not end as the training did.
    """
    comm, options = trainer.comm, replay.options
    comm.together(lambda: None if comm.rank else check_possible(replay.record, options.consistency, options.steps))
    if comm.size == replay.plan.ranks:
        training = WithoutBarriers(trainer.model, trainer.data, trainer.options, trainer.parameters, trainer.timeline,
                                   Recorded(replay.record.entries[comm.rank]))
        training.begin()
        with watch(trainer):
            steps = stretch(trainer, training, progress)
        totals.add_stretch(steps, 0.0)
        between(steps, True)
        left = left_by(training)
    else:
        _replay_into(trainer, replay)
        left = Left([], [])
    found = hashes(trainer.parameters, ())["parameters_sha256"]
    comm.together(lambda: replay.check(found))
    return left


def left_by(training: WithoutBarriers) -> "Left":
    """Return what the owners of a training that has ended leave behind. Collective; the same on every rank."""
    owner, comm = training.owner, training.comm
    told = [json.loads(text) for text in comm.share_text(json.dumps([owner.record, sorted(owner.staleness.items())]))]
    return Left([entries_of(entries, comm.size) for entries, _ in told], [dict(staleness) for _, staleness in told])


class Left:
    """What owners leave behind. entries: of each.  staleness: of each, τ -> rows and dense variables pushed with it."""

    def __init__(self, entries: list, staleness: list[dict[int, int]]):
        self.entries, self.staleness = entries, staleness

    @property
    def histograms(self) -> list[dict[str, int]]:
        """Of each owner, ``staleness`` with its keys as JSON has them, rising."""
        return [{str(late): each[late] for late in sorted(each)} for each in self.staleness]

    def write(self, directory: Path, parameters: str):
        """Write the record into a run directory. Local to rank 0. Raises OSError."""
        write_record(directory, Record(self.entries, parameters))


def _replay_into(trainer, replay: RecordedRun):
    """Do a recorded training on each rank alone, and place what it ended with. Collective."""
    arrays = trainer.comm.together(
        lambda: replay_alone(trainer.model, trainer.data, replay.options, replay.plan, replay.record))
    for (name, slot), whole in arrays.items():
        trainer.parameters.place(name, slot, lambda rows, whole=whole: (
            whole if rows is None else whole[rows.start:rows.stop:rows.step]))
    trainer.step = replay.options.steps
