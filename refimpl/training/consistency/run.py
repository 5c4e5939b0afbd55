"""A training without barriers from its beginning to its end: on all ranks, or from its record; what it leaves behind."""

import json
from collections import Counter
from pathlib import Path

from refimpl.plain.consistencies import is_decentralised
from refimpl.training.consistency.orders import Recorded
from refimpl.training.consistency.record import Record, check_possible, entries_of, write_record
from refimpl.training.consistency.recorded_run import RecordedRun
from refimpl.training.consistency.replay import replay_alone
from refimpl.training.consistency.run_decentralised import run_decentralised
from refimpl.training.consistency.without_barriers import WithoutBarriers
from refimpl.training.run.whole import hashes


def refuse_cuts(options, resume, evaluate_every, checkpoint_every):
    """Raise ValueError for what needs the state between two steps of all workers. Local."""
    for given, option in ((resume, "--resume"), (evaluate_every, "--evaluate-every"),
                          (checkpoint_every, "--checkpoint-every")):
        if given:
            raise ValueError(f"{option} needs a moment between two steps, and with --consistency {options.consistency} "
                             f"every worker is in another one: leave {option} out; at the end there is an evaluation "
                             "and a checkpoint")


def train_without_barriers(trainer, totals, directory, progress, replay: RecordedRun | None, warm: int):
    """Do a training, or replay one; count it in ``totals``, write its metrics. Return Left, or None. Collective.

    Raises CollectiveError, too, where a replay does not end as the training did.
    """
    if replay is not None:
        trainer.comm.together(lambda: check_possible(replay.record, replay.options.consistency, replay.options.steps))
    if replay is None or trainer.comm.size == replay.plan.ranks:
        run = run_decentralised if is_decentralised(trainer.options.consistency) else run_without_barriers
        steps, left = run(trainer, progress, replay and replay.record)
        totals.add_run(steps, warm)
        trainer.comm.together(lambda: directory and [directory.write_metrics(metrics) for metrics in steps])
    else:
        replay_into(trainer, replay)
        left = Left(replay.record.entries, [])
    if replay is not None:
        found = hashes(trainer.parameters, ())["parameters_sha256"]
        trainer.comm.together(lambda: replay.check(found))
    return left


def run_without_barriers(trainer, progress=None, record: Record | None = None) -> tuple[list[dict], "Left"]:
    """Do all steps of a training; return the metrics of all workers' steps, in their order in time. Collective.

    progress: called on rank 0 with the metrics of each of its worker's steps.  record: what to follow, None: nothing.
    The same on every rank.
    """
    comm, options = trainer.comm, trainer.options
    trainer.timeline.start_step(0)
    comm.ledger.clear()
    try:
        order = None if record is None else Recorded(record.entries[comm.rank])
        training = WithoutBarriers(trainer.model, trainer.data, options, trainer.parameters, trainer.timeline, order)
        mine: list[dict] = []

        def note(metrics):
            mine.append(metrics)
            if progress is not None and comm.rank == 0:
                progress(metrics)

        training.run(note)
    except BaseException as problem:
        comm.stop(problem)
    trainer.step, trainer.carried = options.steps, training.serving.worker.carried
    texts = comm.share_text(json.dumps([mine, training.owner.record, sorted(training.owner.staleness.items())]))
    told = [json.loads(text) for text in texts]
    steps = sorted((metrics for mine, _, _ in told for metrics in mine), key=lambda m: (m["at"], m["worker"]))
    return steps, Left([entries_of(entries, comm.size) for _, entries, _ in told],
                       [dict(staleness) for _, _, staleness in told])


class Left:
    """What owners leave behind. entries: of each.  staleness: of each, τ -> rows and dense variables pushed with it."""

    def __init__(self, entries: list, staleness: list[dict[int, int]]):
        self.entries, self.staleness = entries, staleness

    @property
    def histogram(self) -> dict[str, int]:
        """τ, as text -> how many rows and dense variables were pushed with it, over all owners."""
        total: Counter = Counter()
        for each in self.staleness:
            total.update(each)
        return {str(late): total[late] for late in sorted(total)}

    def write(self, directory: Path, parameters: str):
        """Write the record into a run directory. Local to rank 0. Raises OSError."""
        write_record(directory, Record(self.entries, parameters))


def replay_into(trainer, replay: RecordedRun):
    """Do a recorded training on each rank alone, and place what it ended with. Collective."""
    arrays = trainer.comm.together(
        lambda: replay_alone(trainer.model, trainer.data, replay.options, replay.plan, replay.record))
    for (name, slot), whole in arrays.items():
        trainer.parameters.place(name, slot, lambda rows, whole=whole: (
            whole if rows is None else whole[rows.start:rows.stop:rows.step]))
    trainer.step = replay.options.steps
