"""The work of each rank: a training from its opening to its end; rank 0 returns the records."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from refimpl.experiments.cells.cell import Cell
from refimpl.experiments.cells.ranks import build, options_of
from refimpl.plan.plan import SYNCHRONOUS
from refimpl.training.consistency.run import left_by, stretch
from refimpl.training.consistency.served.without_barriers import WithoutBarriers
from refimpl.training.evaluate import evaluate
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator


def run_cell(cell: Cell, comm: Communicator, profile: str | None, directory: Path) -> dict | None:
    """Train as the cell says; return its result on rank 0. Collective. profile: directory of a replay's."""
    model, data, options = comm.together(lambda: (*build(cell, profile, comm.rank), options_of(cell)))
    if cell.compute == "real":  # compile and load before the training
        train_once(model, data, replace(options, steps=1), comm)
    trainer, found = train_once(model, data, options, comm)
    if cell.compute == "real":
        found["heldout"] = evaluate(trainer, cell.workload.make_heldout(comm.size, cell.seed))
    return found if comm.rank == 0 else None


def train_once(model, data, options, comm: Communicator) -> tuple[Trainer, dict]:
    """Train; return the trainer, and a dict that is the same on every rank. Collective.

    steps: [worker, its step, seconds since the beginning, loss of its part, examples], in their order in time.
    entries: owner -> its event log.  rows: τ, as text -> the number of rows and dense variables pushed with it.
    sent: payload bytes between machines, of all ranks.
    """
    trainer = Trainer.open(model, data, options, comm)
    comm.meet("the beginning of a training")
    steps, crossed, left = _steps(trainer) if options.consistency == SYNCHRONOUS else _without_barriers(trainer)
    sent = int(comm.share(np.array([crossed]), "report").sum())
    return trainer, {"steps": steps, "sent": sent,
                     "entries": [entries.tolist() for entries in left.entries] if left else [],
                     "rows": left.histograms if left else []}


def _without_barriers(trainer):
    """Return steps, the bytes that this rank sent to other machines, and the owners' logs. Collective."""
    training = WithoutBarriers(trainer)
    training.begin()
    steps = [[m["worker"], m["step"], m["at"], m["loss"], m["examples"]] for m in stretch(trainer, training)]
    return steps, trainer.comm.ledger.total("crossed_sent"), left_by(training)


def _steps(trainer):
    """Return the same for a synchronous training, in which all workers end a step together. Collective."""
    size, steps, crossed, begin = trainer.comm.size, [], 0, time.perf_counter()
    for _ in range(trainer.options.steps):
        record = trainer.train_step()
        crossed += trainer.comm.ledger.total("crossed_sent")
        at = time.perf_counter() - begin
        steps += [[worker, record["step"], at, float(record["loss"]), record["examples"] // size]
                  for worker in range(size)]
    return steps, crossed, None
