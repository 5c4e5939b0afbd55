"""Our own implementation, as an adapter: any architecture, any schedule.

    python -m refimpl conformance run --target refimpl.conformance.adapters.ours --ranks 4
    REFIMPL_ADAPTER='{"architecture": "ps", "partitions": 3}' ...

A rank is one microbatch; its contributions are divided by N where they are made, as a model divides by the size of the
global batch.
"""

import json
import os

import numpy as np

import kernels  # not its names: one of them is the protocol's
from models import Variable
from refimpl.collectives import make_schedule, prove
from refimpl.collectives.choose import by_machine
from refimpl.conformance.adapters import functions_of
from refimpl.conformance.adapters.ours_mesh import MeshAdapter
from refimpl.conformance.adapters.ours_owner import Owners
from refimpl.conformance.adapters.ours_training import TrainingAdapter, divided
from refimpl.conformance.arrivals import play
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.traces.record import global_ids
from refimpl.plan import make_plan
from refimpl.training.parameters import Parameters
from refimpl.transport import Communicator

LAUNCHER = "mpi"
SETTINGS = ("architecture", "allreduce", "partitions", "scheme", "sparse_as_dense", "shard_optimizer",
            "shared_memory", "local_aggregation", "overlap")


class _Table(np.ndarray):
    """A view of one zero; joined with others it is such a view again."""

    def __array_function__(self, function, types, args, kwargs):
        if function is np.concatenate:
            parts = args[0]
            return untouched((sum(len(p) for p in parts), *self.shape[1:]), self.dtype)
        return super().__array_function__(function, types, args, kwargs)


def untouched(shape, dtype):
    """Return zeros of a shape that take no memory and cannot be written. Local."""
    return np.broadcast_to(np.zeros((), dtype), shape).view(_Table)


class UntouchedTable(Variable):
    """A sparse variable whose initial values are such zeros."""

    def initial_rows(self, seed, start=0, stop=None, stride=1):
        return untouched((len(range(self.shape[0])[start:stop:stride]), *self.shape[1:]), self.dtype)


class Ours(TrainingAdapter, MeshAdapter):
    """The protocol's functions over a communicator. settings: of Options, see SETTINGS."""

    def __init__(self, comm: Communicator, **settings):
        self.comm = comm
        self.settings = {"architecture": "hybrid", "allreduce": "direct", **settings}
        unknown = set(self.settings) - set(SETTINGS)
        if unknown:
            raise ValueError(f"no setting {', '.join(sorted(unknown))}; there are {', '.join(SETTINGS)}")

    def world(self):
        """Return (rank, size)."""
        return self.comm.rank, self.comm.size

    def describe(self) -> Semantics:
        """Average, of contributions that are divided first; to the bit where the schedule is canonical."""
        machines = self.comm.machines if by_machine(self.settings["allreduce"]) else None
        schedule = make_schedule(self.settings["allreduce"], self.comm.size, self.comm.size, machines=machines)
        served = self.settings["architecture"] in ("ps", "hybrid")
        meshes = ("model-parallel",) * (self.settings["architecture"] in ("allreduce", "hybrid"))
        return Semantics(name="refimpl " + " ".join(map(str, self.settings.values())), divide="before",
                         order="tree" if prove(schedule).canonical else "any", rows_on="owner" if served else "every",
                         most_rows=10**6 if self.settings.get("sparse_as_dense") else None,
                         supports=(*Semantics().supports, "nesterov", "adamw", "weight-decay", "row-decay", "bounded",
                                   "softsync", "backup", "staleness-aware", "dc-asgd", "dc-asgd-adaptive", "versions",
                                   *meshes))

    def serve(self, arrivals) -> list:
        """Play a script to as many owners as there are ranks, each rank to its own copy of them."""
        return play(Owners(arrivals, self.comm.size), arrivals.entries)

    def aggregate_uses(self, uses, shapes):
        """What a model does whose variable is read twice: it adds both gradients of its microbatch."""
        joined = {n: tuple(map(np.concatenate, zip(*parts))) if n in shapes else sum(parts[1:], parts[0])
                  for n, parts in uses.items()}
        return self.aggregate_rows(joined, shapes)

    def aggregate_rows(self, gradients, shapes=()) -> dict:
        """Sum one microbatch a rank as the plan says: name -> mean, of rows (ids, rows) that this rank keeps."""
        size, names = self.comm.size, sorted(gradients)
        variables = tuple(UntouchedTable(n, shapes[n], True, dtype=gradients[n][1].dtype.name) if n in shapes else
                          Variable(n, gradients[n].shape, dtype=gradients[n].dtype.name) for n in names)
        plan = self.plan(variables)
        shared = self.settings.get("shared_memory", True)
        parameters = Parameters.open(variables, plan, self.comm, 0, "sgd", shared=shared)
        leaf = {n: kernels.aggregate_rows(*part) if n in shapes else part
                for n, part in divided(gradients, size).items()}
        result = {}
        for exchange in parameters.exchanges:
            exchange.add(self.comm.rank, {v.name: leaf[v.name] for v in exchange.variables})
            for reduced in exchange.push():  # a variable's partitions may come one by one
                name, whole = reduced.shard.variable.name, np.array(reduced.gradient)
                if reduced.ids is None:
                    reduced.shard.values[...] = whole
                else:
                    pieces = result.get(name, (np.empty(0, np.int64), whole[:0]))
                    whole = tuple(map(np.concatenate, zip(pieces, (global_ids(plan, self.comm.rank, reduced), whole))))
                result[name] = whole
        self.comm.agree()  # sums may lie in shared memory: all have read them
        for name, strategy in plan.strategies.items():
            if not (strategy.sparse or strategy.replicated):  # its owners alone have it, and all will pull it
                result[name] = parameters.collect(name, everyone=True, phase="pull")
        return result

    aggregate_dense = aggregate_all = aggregate_rows

    def plan(self, variables):
        """Return the plan for some variables, one microbatch a rank."""
        options = {n: v for n, v in self.settings.items() if n not in ("architecture", "shared_memory", "overlap")}
        return make_plan(variables, self.settings["architecture"], self.comm.size, self.comm.size,
                         machines=self.comm.machines, **options)


__getattr__ = functions_of(Ours, lambda: Ours(Communicator.of(), **json.loads(os.environ.get("REFIMPL_ADAPTER", "{}"))))
