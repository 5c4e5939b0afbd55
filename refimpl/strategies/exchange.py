"""What a training asks of a strategy's exchange: some variables, where they live, and how their gradients get there.

An exchange carries and keeps; it knows no optimizer. It hands out what this rank keeps of each summed gradient, and the
trainer clips and updates it there: so the mathematics cannot depend on the strategy (I3).
"""

from typing import Any, Callable

from kernels.random import key_of
from models import Variable
from refimpl.gradients import DenseTree, RowTree, ScaledTree
from refimpl.server import Holding, ReducedGradient, Shard


class Exchange:
    """Variables of one strategy that are exchanged together (a bucket of the plan), and what holds if it says no more.

    phase: what ``push`` is called in metrics and traces.
    replicated: every rank keeps the whole variables, so that ``pull`` concerns no other rank.
    shards: name -> what this rank keeps and updates of the variable.
    gradients: the tree in which this rank's gradients add up.
    channel: a number of its own among those of a training, which may be under way at the same time.
    step: the number of the step at hand, for codecs that round at random.
    """

    phase: str
    replicated: bool
    variables: list[Variable]
    shards: dict[Any, Shard]
    gradients: DenseTree | RowTree
    channel, step = 0, 0
    comm: Any
    seed: int

    def open(self):
        """Make what ranks can only make together, after all have made the exchange. Collective, once."""

    def dense_tree(self, layout, xp, codec, leaves: int, homes=None) -> DenseTree:
        """Return the tree of dense gradients for a codec. layout: of messages.  leaves: V. Local."""
        if not codec.scaled:
            return DenseTree(layout, xp, homes, codec)
        return ScaledTree(layout, xp, homes, codec, leaves,
                          lambda name, leaf: key_of(self.seed, "codec", self.step, name, leaf))

    def take_dense(self) -> list:
        """Return the nodes of the dense tree, encoded; agree on the scale first, if there is one. Collective."""
        if self.gradients.codec.scaled:
            self.gradients.scale(self.comm.share(self.gradients.largest(), "scale").max(axis=0))
        return self.gradients.take()

    def pull(self, needs: dict[str, Any], phase: str = "pull") -> dict[str, Any]:
        """Return name -> (k, d) rows as they are now, of each of the sparse variables that is in ``needs``.

        needs: name -> (k,) int64 sorted unique rows; ranks ask for rows of their own, but of the same variables.
        Whole values of dense variables are fetched too: see ``dense``. May be called several times a step.
        Collective; local if the variables are replicated.
        """
        return {}

    def dense(self) -> dict[str, Any]:
        """Return name -> whole value of the dense variables, as pulled. Local."""
        return {}

    def part(self, variable: Variable) -> Variable:
        """Return what this rank keeps and computes the gradient of, as a variable. Local."""
        return variable

    def add(self, leaf: int, gradients: dict[str, Any] | None):
        """Add a microbatch's gradients; None if it had no examples. Leaves come in order. Local."""
        self.gradients.push(leaf, gradients)

    def residuals(self) -> dict:
        """Return (variable, microbatch) -> what a codec has left out of this rank's gradients so far. Local."""
        return {}

    def formed(self) -> dict:
        """Return node -> name -> the sum of what was added, of the nodes of the tree that ``push`` sends. Local."""
        return self.gradients.formed()

    def put(self, node, sums: dict[str, Any]):
        """Add a node that was ``formed`` before, in the place of its leaves. Local."""
        self.gradients.put(node, sums)

    def held(self) -> list:
        """Return the arrays of what was added that ``push`` lets go of, to be kept by whom it reads for. Local."""
        return self.gradients.held()

    def begin(self):
        """Begin to exchange what was added, all of it, if that goes beside the computation. Collective."""

    def advance(self):
        """Let what was begun go on, while this rank computes. Local."""

    def push(self) -> list[ReducedGradient]:
        """Exchange and sum what was added; return what this rank keeps of the sums. Collective."""
        raise NotImplementedError

    def collect(self, name: str, slot: str | None, everyone: bool, phase: str) -> Any:
        """Return a whole variable (slot None) or state array, on rank 0 or on everyone (else None). Collective."""
        raise NotImplementedError

    def kept(self, name: str) -> list[Holding]:
        """Return what this rank keeps of a variable, and updates. Local."""
        raise NotImplementedError

    def place(self, name: str, slot: str | None, read: Callable):
        """Set what this rank keeps of an array; read(rows) returns it, whole if rows is None. Local."""
        for shard, rows, _ in self.kept(name):
            array, first = shard.array(slot), 0
            if rows is None:
                array[...] = read(None)
            for part in rows or ():
                array[first:first + len(part)] = read(part)
                first += len(part)


class Replicas(Exchange):
    """What exchanges of replicated variables have in common: every rank has all values."""

    replicated = True

    def collect(self, name, slot, everyone, phase):
        return self.shards[name].array(slot) if everyone or self.comm.rank == 0 else None

    def kept(self, name):
        return [Holding(self.shards[name], None, alone=False)]
