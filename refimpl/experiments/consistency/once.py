"""One training of some consistency, from opening to its end, and what it left: all workers' steps, records, bytes."""

import json
import time

from refimpl.plan.plan import SYNCHRONOUS
from refimpl.training.consistency.run import left_by, stretch
from refimpl.training.consistency.served.without_barriers import WithoutBarriers
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator


def train_once(model, data, options, comm: Communicator, network_file=None) -> tuple[Trainer, dict]:
    """Train; return the trainer, and what is the same on every rank. Collective.

    steps: [worker, its step, seconds since the beginning, loss of its part, examples], in their order in time.
    entries: owner -> its record.  rows: τ, as text -> rows and dense variables pushed with it.
    sent, received: payload bytes between machines of all ranks.
    """
    trainer = Trainer.open(model, data, options, comm, network_file=network_file)
    comm.meet("the beginning of a training")
    steps, crossed, left = _steps(trainer) if options.consistency == SYNCHRONOUS else _without_barriers(trainer)
    everyone = [json.loads(text) for text in comm.share_text(json.dumps(crossed))]
    sent, received = map(sum, zip(*everyone))
    return trainer, {"steps": steps, "sent": sent, "received": received,
                     "entries": [entries.tolist() for entries in left.entries] if left else [],
                     "rows": left.histograms if left else []}


def _without_barriers(trainer):
    """Return steps, this rank's bytes that crossed machines, and what owners left. Collective."""
    training = WithoutBarriers(trainer.model, trainer.data, trainer.options, trainer.parameters, trainer.timeline)
    training.begin()
    steps = [[m["worker"], m["step"], m["at"], m["loss"], m["examples"]] for m in stretch(trainer, training)]
    return steps, _crossed(trainer.comm), left_by(training)


def _steps(trainer):
    """Return the same of a synchronous training, in which all workers end a step at once. Collective."""
    size, steps, crossed, begin = trainer.comm.size, [], [0, 0], time.perf_counter()
    for _ in range(trainer.options.steps):
        record = trainer.train_step()
        crossed = [one + more for one, more in zip(crossed, _crossed(trainer.comm))]
        at = time.perf_counter() - begin
        steps += [[worker, record["step"], at, float(record["loss"]), record["examples"] // size]
                  for worker in range(size)]
    return steps, crossed, None


def _crossed(comm) -> list[int]:
    return [comm.ledger.total("crossed_sent"), comm.ledger.total("crossed_received")]
