"""All parameters of a training, wherever they are kept: the exchanges of the plan's buckets as one object."""

import numpy as np

from kernels.arrays import as_array
from kernels.update import OPTIMIZERS, initial_state
from refimpl.collectives.units import size_name
from refimpl.plan import Plan
from refimpl.plan.buckets import buckets_of
from refimpl.strategies.blocks import assembled
from refimpl.training.device import memory_for
from refimpl.training.step.arriving import Wanted, wanted_rows
from refimpl.transport import Communicator

REMEDY = ("Reduce the sizes (--preset, --set), take an optimizer with less state (sgd keeps none), or let more ranks "
          "share the rows (--architecture hybrid or ps)")


class Parameters:
    """A model's variables and their optimizer state. The constructor is local; ``open`` also opens the exchanges.

    exchanges: one for each of the plan's buckets, in their order.  exchange_of: variable -> its exchange.
    slots: variable -> the names of the arrays that the optimizer keeps for it.
    shared: whether ranks of one machine may sum in shared memory.
    """

    def __init__(self, variables, plan: Plan, comm: Communicator, seed: int, optimizer: str, xp=np,
                 shared: bool = False):
        self.plan, self.comm, self.xp, self.variables, self.exchanges = plan, comm, xp, list(variables), []
        by_name = {v.name: v for v in self.variables}
        for bucket in buckets_of(plan):
            placed = [(by_name[name], plan.strategies[name]) for name in bucket.names]
            with memory_for(_told([variable for variable, _ in placed]), REMEDY):
                self.exchanges.append(bucket.strategy.exchange(placed, plan, comm, seed, xp, shared))
                self.exchanges[-1].channel = len(self.exchanges) - 1
        self.exchange_of = {v.name: exchange for exchange in self.exchanges for v in exchange.variables}
        self.slots = {v.name: () if v.statistic else tuple(OPTIMIZERS[optimizer].state) for v in self.variables}
        for shard in (shard for exchange in self.exchanges for shard in exchange.shards.values()):
            if not shard.variable.statistic:
                with memory_for(f"{optimizer}'s state of {_told([shard.variable])}", REMEDY):
                    shard.state = initial_state(optimizer, shard.values)

    @classmethod
    def open(cls, variables, plan, comm, *arguments, **options) -> "Parameters":
        """Return them with open exchanges; arguments as of the constructor. Collective. Raises CollectiveError."""
        parameters = comm.together(lambda: cls(variables, plan, comm, *arguments, **options))
        for exchange in parameters.exchanges:  # not before: a rank that could not make its own would be waited for
            exchange.open()
        return parameters

    def wanted(self, needs) -> dict[str, Wanted]:
        """Return name -> ``Wanted``: the rows to pull of each sparse variable that is not replicated. Local.

        needs: microbatch -> (name -> (k,) int64 sorted unique rows), None if it has no examples.
        """
        away = [v.name for v in self.variables if v.sparse and not self.exchange_of[v.name].replicated]
        return wanted_rows([ids for ids in needs.values() if ids is not None], away, self.plan.pull_rounds)

    def collect(self, name: str, slot: str | None = None, everyone: bool = False, phase: str = "collect"):
        """Return a whole variable (slot None) or state array on rank 0, or on every rank; else None. Collective."""
        variable = next(v for v in self.variables if v.name == name)
        return assembled(self.blocks(name, slot, range(self.comm.size) if everyone else [0], phase), variable)

    def blocks(self, name: str, slot: str | None, takers, phase: str):
        """Yield the same in blocks of rows, see ``strategies.blocks.blocks_of``. Collective; so is each ``next``."""
        return self.exchange_of[name].blocks(name, slot, takers, phase)

    def place(self, name: str, slot: str | None, whole):
        """Set this rank's part of a variable (slot None) or state array from the whole array. Local.

        whole: a NumPy array, or an object whose rows, or all, are read as ``whole[start:stop:step]``.
        """
        self.exchange_of[name].place(name, slot, lambda rows: as_array(
            self.xp, whole[... if rows is None else slice(rows.start, rows.stop, rows.step)]))


def _told(variables) -> str:
    largest = max(variables, key=lambda v: v.nbytes)
    others = f", the largest of {len(variables)} variables that travel together" if len(variables) > 1 else ""
    return f"variable {largest.name!r} ({size_name(largest.nbytes)}{others})"
