"""The interface of a strategy's exchange, which stores some variables and transports their values and gradients.

An exchange does not know the optimizer. It returns this rank's part of each summed gradient. The trainer clips it and
updates the variable, so the update cannot depend on the strategy (I3).
"""

from typing import Any, Callable, Iterator

import numpy as np

from kernels.random import key_of
from models import Variable
from refimpl.gradients import Arena, DenseTree, Layout, RowTree, ScaledTree
from refimpl.server import Holding, ReducedGradient, Shard
from refimpl.server.rounds import ahead
from refimpl.strategies.blocks import table_shape


class Exchange:
    """Variables of one strategy that are exchanged together (a bucket of the plan), with default methods.

    A class names its strategy, which creates it: ``class AllreduceExchange(DenseReplicas, of=Allreduce)``. Local.
    placed: (variable, strategy) of each.  shared: whether ranks of one machine may sum in shared memory.
    phase: name of ``push`` in metrics and traces.
    replicated: every rank keeps the whole variables, so that ``pull`` is local.
    shards: name -> the part of the variable that this rank keeps and updates.
    gradients: the tree in which this rank's gradients add up.
    channel: its number, unique among the exchanges of a training, because several may run at the same time.
    step: the number of the current step, for codecs that round at random.
    pushing: what ``begin`` has begun, if its messages need to be kept; else None.
    """

    phase: str
    replicated: bool
    variables: list[Variable]
    shards: dict[Any, Shard]
    gradients: DenseTree | RowTree | None = None
    channel, step, pushing = 0, 0, None

    def __init_subclass__(cls, of=None):
        if of is not None:
            of.exchange = cls

    def __init__(self, placed: list, plan, comm, seed: int, xp=np, shared: bool = True):
        self.comm, self.seed, self.xp, self.shared = comm, seed, xp, shared
        self.variables, self.codec = [variable for variable, _ in placed], placed[0][1].coding

    def open(self):
        """Create objects that need all ranks. It is called once, after all ranks have their exchange. Collective."""

    def dense_tree(self, layout, xp, codec, leaves: int, homes=None) -> DenseTree:
        """Return the tree of dense gradients for a codec. layout: of messages.  leaves: V. Local."""
        if not codec.scaled:
            return DenseTree(layout, xp, homes, codec)
        return ScaledTree(layout, xp, homes, codec, leaves,
                          lambda name, leaf: key_of(self.seed, "codec", self.step, name, leaf))

    def take_dense(self) -> list:
        """Agree on the scale, if the codec has one; return the encoded nodes of the dense tree. Collective."""
        if self.gradients.codec.scaled:
            self.gradients.scale(self.comm.share(self.gradients.largest(), "scale").max(axis=0))
        return self.gradients.take()

    def pull(self, needs: dict[str, Any], phase: str = "pull") -> dict[str, Any]:
        """Return name -> (k, d), the current rows of each sparse variable in ``needs``.

        needs: name -> (k,) int64 sorted unique rows. Ranks may need different rows, but of the same variables.
        It also fetches the whole dense variables: see ``dense``. It may be called several times in a step.
        Collective; local if the variables are replicated.
        """
        return {}

    def pulling(self, needs: dict[str, Any]):
        """Yield what ``pull`` returns. Before, yield None when this rank waits and may do something else. Collective.
        """
        yield self.pull(needs)

    def dense(self) -> dict[str, Any]:
        """Return name -> whole value of each dense variable, from the last pull. Local."""
        return {}

    def part(self, variable: Variable) -> Variable:
        """Return the part of a variable whose gradient this rank computes, as a variable. Local."""
        return variable

    def add(self, leaf: int, gradients: dict[str, Any] | None):
        """Add a microbatch's gradients; None if it had no examples. Leaves come in order. Local."""
        self.gradients.push(leaf, gradients)

    def residuals(self) -> dict:
        """Return (variable, microbatch) -> the residual: what a codec has not sent of it; the tree keeps it. Local."""
        return getattr(self.gradients, "left_out", {})

    def common(self) -> dict:
        """Return variable -> what its codec keeps from step to step, the same on all ranks. Local."""
        return {}

    def formed(self) -> dict:
        """Return node -> name -> the sum of the added gradients, for the nodes that ``push`` sends. Local."""
        return self.gradients.formed()

    def put(self, node, sums: dict[str, Any]):
        """Add a node from ``formed`` instead of its leaves. Local."""
        self.gradients.put(node, sums)

    def held(self) -> list:
        """Return the added arrays that ``push`` will release. A caller that needs them later must keep them. Local."""
        return self.gradients.held() if isinstance(self.gradients, RowTree) else []

    def begin(self):
        """Begin to exchange all added gradients, if the exchange can overlap with computation. Collective."""

    def advance(self) -> bool:
        """Continue the exchange that was begun, without waiting; return whether it made progress. Local."""
        return False

    def push(self) -> list[ReducedGradient]:
        """Exchange and sum the added gradients; return this rank's parts of the sums. Collective."""
        raise NotImplementedError

    def blocks(self, name: str, slot: str | None, takers, phase: str) -> Iterator[tuple[int, Any]]:
        """Yield a whole variable (slot None) or state array in blocks: see ``strategies.blocks``. Collective."""
        raise NotImplementedError

    def kept(self, name: str) -> list[Holding]:
        """Return the shard of a variable that this rank keeps and updates. Local."""
        raise NotImplementedError

    def place(self, name: str, slot: str | None, read: Callable):
        """Set this rank's part of an array. read(rows) returns the rows, or the whole array if rows is None. Local."""
        for shard, rows, _ in self.kept(name):
            array, first = shard.array(slot), 0
            if rows is None:
                array[...] = read(None)
            for part in rows or ():
                array[first:first + len(part)] = read(part)
                first += len(part)


def in_stages(comm, begin: Callable):
    """Exchange with all other ranks in N - 1 stages, two of them under way at a time. Collective.

    In stage k rank r sends to rank r + k and receives from rank r - k, modulo N. If all ranks sent to all at once,
    dozens of streams would meet at each network card, and a card whose queue is full drops packets.
    begin(to, source): begins a stage, and returns a list of objects to wait for.
    """
    for stage in ahead(begin((comm.rank + k) % comm.size, (comm.rank - k) % comm.size) for k in range(1, comm.size)):
        for pending in stage:
            pending.wait()


class Replicas(Exchange):
    """The base class of exchanges of replicated variables: every rank has all values."""

    replicated = True

    def blocks(self, name, slot, takers, phase):
        array = self.shards[name].array(slot)
        yield 0, array.reshape(table_shape(self.shards[name].variable)) if self.comm.rank in takers else None

    def kept(self, name):
        return [Holding(self.shards[name], None, alone=False)]


class DenseReplicas(Replicas):
    """The base class of exchanges of replicated dense variables: their values lie in one arena."""

    def __init__(self, placed, plan, comm, seed, xp=np, shared=True):
        Exchange.__init__(self, placed, plan, comm, seed, xp, shared)  # a subclass may have other bases, too
        initial = {v.name: v.initial_value(seed) for v in self.variables}
        self.values = Arena(Layout.of(self.variables), xp).fill(initial)
        self.shards = {v.name: Shard(v, self.values[v.name]) for v in self.variables}

    def dense(self):
        return self.values.views
