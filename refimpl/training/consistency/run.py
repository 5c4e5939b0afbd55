"""A training without barriers from beginning to end, on all ranks or as a replay of its event log.

Each kind of training is a generator of stretches. Between two stretches the session evaluates and saves.
"""

import json
import math
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Iterator, NamedTuple

from refimpl.plain.without_barriers.consistencies import is_decentralised
from refimpl.training.consistency.replicas.run import train_replicas
from refimpl.training.consistency.served.serving import Recorded
from refimpl.training.consistency.served.record import Record, RecordedRun, check_possible, entries_of, write_record
from refimpl.training.consistency.served.replay import replay_alone
from refimpl.training.consistency.served.without_barriers import WithoutBarriers
from refimpl.training.run.whole import hashes


class Left(NamedTuple):
    """The results of owners. entries: their event logs.  staleness: of each, {τ: rows and dense variables pushed}."""

    entries: list
    staleness: list[dict[int, int]]

    @property
    def histograms(self) -> list[dict[str, int]]:
        """The ``staleness`` of each owner, with rising keys as text, for JSON."""
        return [{str(late): each[late] for late in sorted(each)} for each in self.staleness]

    def write(self, directory: Path, parameters: str):
        """Write the event logs, if there are any, into a run directory. Local to rank 0. Raises OSError."""
        if self.entries:
            write_record(directory, Record(self.entries, parameters))


class Stretch(NamedTuple):
    """A part of a training. steps: metrics of all workers' steps, ordered by time, the same on every rank.

    counted_from: seconds from the beginning; earlier steps do not count for the speed.
    left: the results of owners, only after the last stretch.
    """

    steps: list[dict]
    counted_from: float
    left: Left | None = None


def stretches_of(trainer, replay: RecordedRun | None, watch, progress, warm: int, every, asked) -> Iterator[Stretch]:
    """Do a training that is not synchronous, or a replay. Arguments: see ``without_barriers``. Collective."""
    if replay is not None:
        return by_record(trainer, replay, watch, progress)
    if is_decentralised(trainer.options.consistency):
        return decentralised(trainer, watch, progress, warm)
    return without_barriers(trainer, watch, progress, warm, every, asked)


def decentralised(trainer, watch=nullcontext, progress=None, warm: int = 2) -> Iterator[Stretch]:
    """Do a training in which each rank has its own replica; see ``without_barriers``. Collective."""
    with watch(trainer):
        steps = _steps_of(trainer.comm, progress, partial(train_replicas, trainer))
    yield Stretch(steps, _warm(steps, warm, trainer.comm.size), Left([], []))


def without_barriers(trainer, watch, progress, warm: int, every, asked) -> Iterator[Stretch]:
    """Do a training, or the rest of one. Collective.

    watch: ``watch(trainer)`` returns the context of the steps between two cuts.
    progress: called on rank 0 with the metrics of each of its worker's steps.
    warm: steps of each worker that do not count for the speed.
    every: steps of rank 0's worker between two cuts.  asked: asked() returns whether this rank wants a cut now.
    """
    training = WithoutBarriers(trainer)
    training.begin(trainer.found_in_flight)
    trainer.in_flight, trainer.found_in_flight, since, first = training.in_flight, {}, training.seconds, True
    while not training.ended:
        due = [cut for each in every if each and (cut := (trainer.step // each + 1) * each) < trainer.options.steps]
        with watch(trainer):
            steps = stretch(trainer, training, progress, min(due, default=math.inf), asked)
        yield Stretch(steps, _warm(steps, warm, trainer.comm.size, since) if first else since,
                      left_by(training) if training.ended else None)
        since, first = training.seconds, False
        trainer.comm.ledger.clear()


def by_record(trainer, replay: RecordedRun, watch, progress) -> Iterator[Stretch]:
    """Replay a training; see ``without_barriers``. Collective.

    On the same number of ranks each is an owner and a worker again. On another number each rank does everything, and
    keeps its part of the result; then there is no stretch. Raises CollectiveError, too, if the parameters differ from
    those of the training.
    """
    comm, options = trainer.comm, replay.options
    comm.together(lambda: None if comm.rank else check_possible(replay.record, options.consistency, options.steps))
    if comm.size == replay.plan.ranks:
        training = WithoutBarriers(trainer, Recorded(replay.record.entries[comm.rank]))
        training.begin()
        with watch(trainer):
            steps = stretch(trainer, training, progress)
        yield Stretch(steps, 0.0, left_by(training))
    else:
        arrays = comm.together(
            lambda: replay_alone(trainer.model, trainer.data, options, replay.plan, replay.record))
        for (name, slot), whole in arrays.items():
            trainer.parameters.place(name, slot, whole)
        trainer.step = options.steps
    found = hashes(trainer.parameters)["parameters_sha256"]
    comm.together(lambda: replay.check(found))


def stretch(trainer, training: WithoutBarriers, progress=None, until=math.inf, asked=lambda: False) -> list[dict]:
    """Continue up to a cut or the end; return the metrics of all workers' steps, ordered by time. Collective.

    The ledger counts all messages. The result is the same on every rank. until, asked: see ``WithoutBarriers.run``.
    """
    told = _steps_of(trainer.comm, progress, lambda note: training.run(note, until, asked))
    steps = int(trainer.comm.gather_numbers([training.steps], "the steps of rank 0's worker")[0, 0])
    trainer.step = trainer.options.steps if training.ended else steps
    trainer.carried = training.serving.worker.carried
    return told


def _steps_of(comm, progress, run) -> list[dict]:
    """Call run(note), which calls ``note`` with the metrics of each step; return those of all ranks. Collective."""
    mine: list[dict] = []

    def note(metrics):
        mine.append(metrics)
        if progress is not None and comm.rank == 0 and progress(metrics) is True:
            raise ValueError("progress returned True, which ends a synchronous training only: without barriers workers "
                             "do not wait for rank 0; say fewer steps")

    try:
        run(note)
    except BaseException as problem:  # a model may also call sys.exit
        comm.stop(problem)
    told = [metrics for text in comm.share_text(json.dumps(mine)) for metrics in json.loads(text)]
    return sorted(told, key=lambda metrics: (metrics["at"], metrics["worker"]))


def _warm(steps, warm, workers, begun=0.0) -> float:
    """Return when every worker had done ``warm`` of these steps; if some worker has not, when the steps began."""
    times = [[metrics["at"] for metrics in steps if metrics["worker"] == worker][:warm] for worker in range(workers)]
    return max((at[-1] for at in times if at), default=begun) if all(len(at) == warm for at in times) else begun


def left_by(training: WithoutBarriers) -> Left:
    """Return the results of the owners of a training that has ended, the same on every rank. Collective."""
    owner, comm = training.owner, training.comm
    told = [json.loads(text) for text in comm.share_text(json.dumps([owner.record, sorted(owner.staleness.items())]))]
    return Left([entries_of(entries, comm.size) for entries, _ in told], [dict(staleness) for _, staleness in told])
