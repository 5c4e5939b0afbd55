"""Strategy "hot-rows" of sparse variables: the first H rows are replicated, the others are on the server.

If rows are numbered by falling popularity, as words are, every rank needs the first rows in every step. The server then
sends each of them to all ranks, and receives their gradients from all. An allreduce of replicated rows costs less.

    table    rows [0, H)   a replica on every rank; gradients are summed by allreduce ("as-dense") or allgather
             rows [H, R)   partitions on their owners, pulled and pushed

Its bytes, messages and seconds are those of the two parts. A row is summed within its part, in the order of the
microbatch tree, so no bit depends on H (I1). (Replicating hot keys is a known idea; the paper does not use it.)
"""

from dataclasses import dataclass

import numpy as np

from kernels import RowGradient, array_module
from kernels.rows import rows_between
from refimpl.plan.partitions.parts import rows_of
from refimpl.plan.plan import Plan
from refimpl.plan.strategy import strategy_of
from refimpl.server import Holding, Partitioning
from refimpl.strategies.exchange import Exchange
from refimpl.strategies.server import ServedRows

REPLICAS = ("as-dense", "allgather")
"""The possible strategies of the hot rows."""


@dataclass(frozen=True)
class HotRows(ServedRows):
    """hot: H.  replica: the strategy of the hot rows, one of REPLICAS.  owners, scheme: of the other rows' partitions.
    """

    name, automatic, early = "hot-rows", False, False
    label = "server, hot rows replicated"

    hot: int = 0
    replica: str = REPLICAS[0]

    def parts(self, variable):
        cold = ServedRows(self.owners, self.scheme, codec=self.codec)
        return [(rows_of(variable, self.hot, variable.shape[0]), cold),
                (rows_of(variable, 0, self.hot), strategy_of(self.replica, True)(codec=self.codec))]

    def partitioning(self, variable, ranks):
        return Partitioning(variable.shape[0] - self.hot, self.owners, ranks, self.scheme)

    def check(self, variable, ranks):
        if type(self.hot) is not int or not 0 < self.hot <= variable.shape[0]:
            raise ValueError(f"{self.hot!r} hot rows; give a whole number from 1 to {variable.shape[0]}, or the "
                             "strategy server")
        if self.replica not in REPLICAS:
            raise ValueError(f"hot rows cannot go {self.replica!r}; give {' or '.join(REPLICAS)}")
        super().check(variable, ranks)

    def loads(self, variable, ranks, popularity=None):
        return super().loads(variable, ranks, None if popularity is None else popularity[self.hot:])


def with_hot_rows(plan: Plan, hot: dict[str, int], replica: str = REPLICAS[0]) -> Plan:
    """Return the plan with ``hot[name]`` hot rows in each of these variables, and none in the others. Local."""
    found = {}
    for name, strategy in plan.strategies.items():
        if strategy.partitioned:
            placed, codec = (strategy.owners, strategy.scheme), strategy.codec
            found[name] = (HotRows(*placed, hot[name], replica, codec=codec) if hot.get(name)
                           else ServedRows(*placed, codec=codec))
    return plan.replaced(found)


class HotRowsExchange(Exchange, of=HotRows):
    """Sparse variables with hot rows. Collective to use; see ``strategies.exchange.Exchange``.

    cold: the exchange of the rows from H on.  replicas: the exchanges of hot rows, one for each of their strategies.
    """

    phase, replicated = "push", False

    def __init__(self, placed, plan, comm, seed, xp, shared):
        super().__init__(placed, plan, comm, seed, xp, shared)
        self.hot = {v.name: strategy.hot for v, strategy in placed}
        both = [strategy.parts(v) for v, strategy in placed]
        self.cold = ServedRows.exchange([cold for cold, _ in both], plan, comm, seed, xp, shared)
        kinds = dict.fromkeys(type(strategy) for _, (_, strategy) in both)
        self.replicas = [kind.exchange([hot for _, hot in both if type(hot[1]) is kind], plan, comm, seed, xp, shared)
                         for kind in kinds]
        self.replica_of = {v.name: exchange for exchange in self.replicas for v in exchange.variables}

    @property
    def shards(self):
        """(variable, "cold" or "hot") -> this rank's shard."""
        return {(name, part): shard for part, exchanges in (("cold", [self.cold]), ("hot", self.replicas))
                for exchange in exchanges for name, shard in exchange.shards.items()}

    def open(self):
        for exchange in self.replicas:
            exchange.open()

    def pull(self, needs, phase="pull"):
        first = {name: int(np.searchsorted(needs[name], hot)) for name, hot in self.hot.items() if name in needs}
        found = self.cold.pull({name: needs[name][n:] - self.hot[name] for name, n in first.items()}, phase)
        for name in found:
            rows = self.replica_of[name].pull({name: needs[name][:first[name]]})[name]
            found[name] = array_module(rows).concatenate([rows, found[name]])
        return found

    def add(self, leaf, gradients):
        for exchange, part in self._split(gradients):
            exchange.add(leaf, part)

    def put(self, node, sums):
        for exchange, part in self._split(sums):
            exchange.put(node, part)

    def formed(self):
        hot, found = [exchange.formed() for exchange in self.replicas], {}
        for node, sums in self.cold.formed().items():
            first = {name: gradient for formed in hot for name, gradient in formed[node].items()}
            found[node] = {name: RowGradient(np.concatenate([first[name].ids, rest.ids + self.hot[name]]),
                                             array_module(rest.rows).concatenate([first[name].rows, rest.rows]))
                           for name, rest in sums.items()}
        return found

    def _split(self, gradients):
        """Yield each exchange and its part of the gradients, or None if there are no gradients."""
        for exchange in self.replicas:
            yield exchange, gradients and {v.name: rows_between(gradients[v.name], 0, self.hot[v.name])
                                           for v in exchange.variables}
        yield self.cold, gradients and {v.name: self._rest(v, gradients[v.name]) for v in self.variables}

    def _rest(self, variable, gradient):
        """Return the part of a row gradient that goes to the server, counted from the first cold row."""
        hot = self.hot[variable.name]
        part = rows_between(gradient, hot, variable.shape[0])
        return RowGradient(part.ids - hot, part.rows)

    def held(self):
        return [gradient for exchange in (self.cold, *self.replicas) for gradient in exchange.held()]

    def push(self):
        return [piece for exchange in (self.cold, *self.replicas) for piece in exchange.push()]

    def blocks(self, name, slot, takers, phase):
        yield from self.replica_of[name].blocks(name, slot, takers, phase)
        for first, rows in self.cold.blocks(name, slot, takers, phase):
            yield self.hot[name] + first, rows

    def kept(self, name):
        hot, ((shard, rows, alone),) = self.hot[name], self.cold.kept(name)
        rest = [range(part.start + hot, part.stop + hot, part.step) for part in rows]
        return [Holding(shard, rest, alone), Holding(self.shards[name, "hot"], [range(hot)], alone=False)]

    def tables_for(self, plan):
        """See ``ServedRowsExchange.tables_for``. Local."""
        return self.cold.tables_for(plan)

    def follow(self, plan, tables):
        """See ``ServedRowsExchange.follow``. Collective."""
        self.cold.follow(plan, tables)
