"""A training without a server: each rank trains a replica, and exchanges it with other ranks.

The steps of a replica equal plain/without_barriers/own_replica.py.
"""

import time
from dataclasses import replace

import numpy as np

from kernels import take_rows
from kernels.arrays import read_only
from refimpl.collectives.prove import prove
from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.collectives.schedule import Schedule
from refimpl.gradients import Arena, Layout
from refimpl.plan.plan import Plan
from refimpl.server import ReducedGradient, Shard
from refimpl.training.consistency.replicas.meetings import meeting
from refimpl.training.consistency.served.worker import AsyncWorker
from refimpl.training.device import memory_for
from refimpl.training.step.update import update_shards


def schedule_of(plan: Plan) -> Schedule:
    """Return the schedule that adds up replicas: the plan's algorithm, with one array on each rank. Local.

    Raises ValueError if it cannot do this, or does not add in tree order.
    """
    schedule = replace(plan, microbatches=plan.ranks).schedule()
    if not prove(schedule).canonical:
        raise ValueError(f"allreduce {plan.allreduce} adds up {plan.ranks} replicas in another order than the tree's, "
                         "and the result would depend on it: say --allreduce direct")
    return schedule


class Others:
    """The other ranks' replicas: the sum of all in tree order, or a single one.

    The constructor is local, ``open`` is collective.  layout: of a replica.  like: an array of its dtype.
    """

    def __init__(self, comm, layout: Layout, like):
        self.comm, self.rank, self.layout, self.theirs = comm, comm.rank, layout, np.empty_like(like)

    def open(self, schedule: Schedule, shared: bool) -> "Others":
        """Make the sum ready; return itself. shared: whether a machine's ranks may sum in shared memory. Collective."""
        self.allreduce = open_allreduce(schedule, self.comm, self.layout.size, self.theirs, "allreduce",
                                        self.layout.overlaps, shared)
        return self

    def total(self, write):
        """Return the sum of all ranks' arrays, valid until the next call. write(mine) fills this rank's. Collective."""
        self.comm.meet("a sum over all replicas")  # who still reads the last one has not come here
        write(self.allreduce.slots[0])
        return self.allreduce()

    def replica(self, other: int, x):
        """Return another rank's replica, and send it x. Only these two ranks wait. Collective."""
        elements = self.layout.overlaps(0, self.layout.size)
        self.comm.exchange([(other, x, elements)], [(other, self.theirs, elements)], "gossip", "dense", packed=False)
        return self.theirs


class ReplicaWorker(AsyncWorker):
    """A rank's replica with its optimizer state, and the worker that computes its gradients. Local.

    parameters: the ``Parameters``, all replicated. They have the first values, and the optimizer's state.
    x: all values.  times: V / v_i, the factor that makes this rank's gradient a mean over its own examples.
    """

    def __init__(self, model, data, options, parameters):
        comm = parameters.comm
        super().__init__(model, data, options, parameters.plan, comm.rank)
        kept = {name: shard for exchange in parameters.exchanges for name, shard in exchange.shards.items()}
        self.x = Arena(Layout.of(model.variables)).fill({name: shard.values for name, shard in kept.items()})
        self.shards = {v.name: Shard(v, self.x[v.name], kept[v.name].state) for v in model.variables}
        self.times = data.microbatches / len(self.microbatches)

    def update(self):
        """Update the replica with the gradients of the current step."""
        reduced = []
        for name, shard in self.shards.items():
            gradient = self.gradients[name]
            ids, values = (gradient.ids, gradient.rows) if shard.variable.sparse else (None, gradient)
            if self.times != 1:
                values = values * values.dtype.type(self.times)
            reduced.append(ReducedGradient(shard, ids, values, True))
        update_shards(self.options, self.clock, reduced)

    def _values(self):
        return ({v.name: read_only(self.x[v.name]) for v in self.model.variables if not v.sparse},
                {v.name: take_rows(self.x[v.name], self.wanted[v.name].ids) for v in self.sparse})


def train_replicas(trainer, note):
    """Do all steps of a training. Collective. note: called with the metrics of each of this rank's steps.

    At the end the parameters of all ranks are the one answer. The optimizer's state differs between ranks; checkpoints
    contain rank 0's.
    """
    comm, options = trainer.comm, trainer.options
    comm.ledger.clear()
    replica, schedule = comm.together(lambda: (_replica(trainer), schedule_of(trainer.plan)))
    others = Others(comm, replica.x.layout, replica.x.flat).open(schedule, options.shared_memory)
    replica.x.flat[...] = _steps(trainer, replica, others, note)
    for name, value in replica.x.views.items():
        trainer.parameters.place(name, None, value)
    trainer.step, trainer.carried = options.steps, replica.carried


def _replica(trainer) -> ReplicaWorker:
    with memory_for("a replica to be trained", "Reduce the sizes (--preset, --set)"):
        return ReplicaWorker(trainer.model, trainer.data, trainer.options, trainer.parameters)


def _steps(trainer, replica, others, note):
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
        note(replica.metrics(replica.times, time.monotonic() - began))
    return rule.answer(x, others)
