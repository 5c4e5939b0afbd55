"""What a training asks of a strategy's exchange: some variables, where they live, and how their gradients get there.

An exchange carries and keeps; it knows no optimizer. It hands out what this rank keeps of each summed gradient, and the
trainer clips and updates it there: so the mathematics cannot depend on the strategy (I3).
"""

from typing import Any, Callable, Protocol

from models import Variable
from refimpl.gradients import DenseTree, RowTree
from refimpl.server import ReducedGradient, Shard


class Exchange(Protocol):
    """Variables of one strategy that are exchanged together (a bucket of the plan).

    phase: what ``push`` is called in metrics and traces.
    replicated: every rank keeps the whole variables, so that ``pull`` concerns no other rank.
    """

    phase: str
    replicated: bool
    variables: list[Variable]

    @property
    def shards(self) -> dict[Any, Shard]:
        """Name -> what this rank keeps and updates of the variable."""

    def open(self):
        """Make what ranks can only make together, after all have made the exchange. Collective, once."""

    def pull(self, needs: dict[str, Any], phase: str = "pull") -> dict[str, Any]:
        """Return name -> (k, d) rows as they are now, of each of the sparse variables that is in ``needs``.

        needs: name -> (k,) int64 sorted unique rows; ranks ask for rows of their own, but of the same variables.
        Whole values of dense variables are fetched too: see ``dense``. May be called several times a step.
        Collective; local if the variables are replicated.
        """

    def dense(self) -> dict[str, Any]:
        """Return name -> whole value of the dense variables, as pulled. Local."""

    def part(self, variable: Variable) -> Variable:
        """Return what this rank keeps and computes the gradient of, as a variable. Local."""

    def add(self, leaf: int, gradients: dict[str, Any] | None):
        """Add a microbatch's gradients; None if it had no examples. Leaves come in order. Local."""

    def held(self) -> list:
        """Return the arrays of what was added that ``push`` lets go of, to be kept by whom it reads for. Local."""

    def begin(self):
        """Begin to exchange what was added, all of it: ``push`` ends it. Collective."""

    def advance(self):
        """Let what was begun go on, while this rank computes. Local."""

    def push(self) -> list[ReducedGradient]:
        """Exchange and sum what was added; return what this rank keeps of the sums. Collective."""

    def collect(self, name: str, slot: str | None, everyone: bool, phase: str) -> Any:
        """Return a whole variable (slot None) or state array, on rank 0 or on everyone (else None). Collective."""

    def place(self, name: str, slot: str | None, read: Callable):
        """Set what this rank keeps of an array; read(rows) returns it, whole if rows is None. Local."""


class BaseExchange:
    """What an exchange does if it says nothing else. gradients: the tree in which this rank's gradients add up.

    channel: a number of its own among those of a training, which may be under way at the same time.
    """

    channel = 0
    gradients: DenseTree | RowTree

    def open(self):
        """Do nothing: it is ready."""

    def dense(self):
        """Return nothing: these are rows."""
        return {}

    def part(self, variable):
        """Return the variable: its gradients are of all of it."""
        return variable

    def add(self, leaf, gradients):
        """Add a microbatch's gradients. Local."""
        self.gradients.push(leaf, gradients)

    def begin(self):
        """Do nothing: all is exchanged in ``push``."""

    def advance(self):
        """Do nothing: nothing was begun."""

    def held(self):
        """Return what ``push`` lets go of. Local."""
        return self.gradients.held()


class Replicas(BaseExchange):
    """What exchanges of replicated variables have in common: every rank has all values."""

    replicated = True
    comm: Any
    shards: dict[str, Shard]

    def collect(self, name, slot, everyone, phase):
        """Return the replica."""
        return self.shards[name].array(slot) if everyone or self.comm.rank == 0 else None

    def place(self, name, slot, read):
        """Set the replica."""
        self.shards[name].array(slot)[...] = read(None)
