"""Strategy "columns" of dense variables: the K members of each group share a fully connected layer, by its outputs.

    bytes in and out of a rank: 4 (w / K) (G - 1) / G of gradients, for the G ranks that hold the same part; and the
    activations of ``plan.activations``                                            (SplitBrain, arXiv 2112.15317)

A weight has shape (outputs, inputs), so a part is some of its rows. In plain: ``refimpl.plain.model_parallel.groups``.
"""

from dataclasses import dataclass

import numpy as np

from refimpl.collectives.choose import make_schedule
from refimpl.collectives.schedule import Schedule
from refimpl.gradients import Layout
from refimpl.plan.mesh import Mesh
from refimpl.plan.partitions.parts import rows_of
from refimpl.plan.strategy import Strategy
from refimpl.server import Holding
from refimpl.strategies.allreduce import AllreduceExchange, allreduce_bytes
from refimpl.strategies.blocks import blocks_of
from refimpl.transport.some_ranks import SomeRanks


@dataclass(frozen=True)
class Columns(Strategy):
    """The strategy in a plan. members: K, the ranks of a group."""

    name, replicated, automatic, in_groups, early = "columns", False, False, True, True
    label, colour, mark = "columns over a group", "purple", "P"
    keys = (("allreduce", "dense"), ("rows", "activations"), ("columns", "activations"), ("out", "activations"))

    members: int = 1

    @classmethod
    def joins(cls, variable):
        return variable.rpartition(".")[0]  # its layer, whose gradients are ready before those of the layer below

    def check(self, variable, ranks):
        if type(self.members) is not int or self.members < 1 or variable.blocks % self.members:
            raise ValueError(f"{self.members!r} members cannot share {variable.blocks} column blocks evenly; give a "
                             f"divisor of {variable.blocks}")
        super().check(variable, ranks)

    def work(self, variable, plan, sample):
        return np.full(plan.ranks, variable.nbytes / self.members)

    @classmethod
    def bytes_between(cls, placed, plan, touched):
        """The bytes of the schedule among the holders of each part."""
        mesh, found = plan.on_mesh, {}
        for member in range(mesh.model):
            parts = Layout.of([part_of(v, mesh, member) for v, _ in placed]).encoded(placed[0][1].coding)
            for key, of_holders in allreduce_bytes(parts, schedule_of(plan)).items():
                found.setdefault(key, np.zeros((plan.ranks, plan.ranks), np.int64))
                found[key][member::mesh.model, member::mesh.model] = np.asarray(of_holders)
        return found


def part_of(variable, mesh: Mesh, rank: int):
    """Return the rows of a cut variable that a rank holds, as a variable. Local."""
    rows = variable.shape[0] // mesh.model
    return rows_of(variable, mesh.member(rank) * rows, (mesh.member(rank) + 1) * rows)


def schedule_of(plan) -> Schedule:
    """Return the proved schedule by which the G holders of a part sum their gradients. Local.

    It is the plan's algorithm if this works for any group of ranks, else the best reproducible one for G ranks.
    """
    algorithm = "auto" if plan.allreduce in ("hierarchical", "nccl") or ":" in plan.allreduce else plan.allreduce
    return make_schedule(algorithm, plan.on_mesh.data, plan.microbatches)


class ColumnsExchange(AllreduceExchange, of=Columns):
    """Parts of cut layers. Collective to use; see ``strategies.exchange.Exchange``.

    The gradients and leaves are of all microbatches of the rank's group.
    """

    def __init__(self, placed, plan, comm, seed, xp, shared):
        self.mesh, self.ranks = plan.on_mesh, comm
        super().__init__([(part_of(v, self.mesh, comm.rank), strategy) for v, strategy in placed], plan,
                         SomeRanks(comm, self.mesh.holders(comm.rank)), seed, xp, False, schedule_of(plan))
        self.variables = [variable for variable, _ in placed]  # whole variables; shards hold the parts

    def part(self, variable):
        return self.shards[variable.name].variable

    def blocks(self, name, slot, takers, phase):
        shard, mesh, rows = self.shards[name], self.mesh, self.shards[name].variable.shape[0]

        def sources(taker):
            return {rank: [range(member * rows, (member + 1) * rows)] for member, rank in enumerate(mesh.group(taker))}

        return blocks_of(self.ranks, self.xp, shard.variable.whole, shard.array(slot), sources, takers, phase)

    def kept(self, name):
        return [Holding(self.shards[name], [self.shards[name].variable.rows], alone=self.mesh.data == 1)]
