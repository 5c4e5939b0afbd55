"""A training without a server from its beginning to its end: each rank trains a replica, and meets others."""

import json
import time

from refimpl.training.consistency.replicas.meetings import meeting
from refimpl.training.consistency.replicas.others import Others, schedule_of
from refimpl.training.consistency.replicas.replica import ReplicaWorker
from refimpl.training.device import memory_for


def run_decentralised(trainer, progress=None) -> list[dict]:
    """Do all steps of a training; return the metrics of all workers' steps, in their order in time. Collective.

    The parameters become the one answer, on all ranks; the optimizer's state stays each rank's own, and what is saved
    is rank 0's.  progress: called on rank 0 with the metrics of each of its steps.
    """
    comm, options = trainer.comm, trainer.options
    comm.ledger.clear()
    replica, schedule = comm.together(lambda: (_replica(trainer), schedule_of(trainer.plan)))
    others = Others(comm, schedule, replica.x.layout, replica.x.flat, options.shared_memory)
    mine: list[dict] = []

    def note(metrics):
        mine.append(metrics)
        if progress is not None and comm.rank == 0:
            progress(metrics)

    try:
        replica.x.flat[...] = _train(trainer, replica, others, note)
    except BaseException as problem:  # a model may also call sys.exit
        comm.stop(problem)
    for name, value in replica.x.views.items():
        trainer.parameters.place(name, None, lambda rows, value=value: value)
    trainer.step, trainer.carried = options.steps, replica.carried
    texts = comm.share_text(json.dumps(mine))
    steps = [metrics for text in texts for metrics in json.loads(text)]
    return sorted(steps, key=lambda metrics: (metrics["at"], metrics["worker"]))


def _replica(trainer) -> ReplicaWorker:
    with memory_for("a replica to be trained", "Reduce the sizes (--preset, --set)"):
        return ReplicaWorker(trainer.model, trainer.data, trainer.options, trainer.parameters)


def _train(trainer, replica, others, note):
    """Do this rank's steps; return the values that all ranks end with. Collective."""
    options, x, phase = trainer.options, replica.x.flat, trainer.timeline.phase
    rule = meeting(options.consistency, others.comm.size, options.steps)
    rule.open(x, len(replica.microbatches), trainer.data.microbatches)
    others.comm.meet("the beginning of a training without a server")
    began = time.monotonic()
    for number in range(options.steps):
        trainer.timeline.start_step(number)
        with phase("data"):
            replica.begin()
        with phase("meet"):
            rule.begin(number, x, others)
        with phase("compute"):
            replica.compute()
            others.comm.stay_one()
        with phase("update"):
            replica.update()
        with phase("meet"):
            rule.end(number, x, others)
        note(_metrics(replica, time.monotonic() - began))
    return rule.answer(x, others)


def _metrics(replica, at: float) -> dict:
    """Return the metrics of a step. loss: the mean over the rank's own part of the batch."""
    return {"step": replica.clock + 1, "worker": replica.number, "loss": replica.loss * replica.times,
            "examples": replica.examples, "at": at, "alpha": replica.alpha}
