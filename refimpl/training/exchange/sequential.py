"""The exchanges of a step, one after the other: everything is pulled, then computed, then pushed."""

from kernels.each import aligned_each
from refimpl.training.check import check_gradients
from refimpl.training.exchange.arriving import Fetched
from refimpl.training.scalars import Scalars


class StepInTurn:
    """One step's exchanges through the roads of an ``Exchange``. Collective to make, and to take ``sums`` from.

    needs, wanted: see ``Exchange.begin``.  dense: name -> value of every dense variable.  scalars: of this step.
    """

    def __init__(self, exchange, needs, wanted, timeline):
        self.exchange, self.timeline, self.coming = exchange, timeline, ComingRows(exchange, needs, wanted)
        self.scalars = Scalars()
        with timeline.phase("pull"):
            for number in range(exchange.plan.pull_rounds):
                for road in exchange.roads:
                    if not road.local:
                        self.coming.fetch(road, number)
        self.dense = aligned_each({name: value for road in exchange.roads for name, value in road.dense().items()})

    def rows(self, leaf: int) -> dict:
        """Return name -> rows of each sparse variable that a microbatch needs. Local."""
        return {name: self.coming.rows(leaf, name) for name in self.coming.names}

    def ready(self, leaf: int, gradients):
        """Leave gradients that are ready before the others alone: nothing leaves before all are there. Local."""

    def add(self, leaf: int, gradients):
        """Add a microbatch's gradients, None if it has no examples. Leaves come in order. Local.

        Raises ValueError for gradients that are not what the variables are.
        """
        if gradients is not None:
            check_gradients(self.exchange.variables, gradients, leaf, self.scalars)
        for road in self.exchange.roads:
            road.add(leaf, gradients)

    def sums(self, error: Exception | None):
        """Yield lists of what this rank holds of the sums (``Summed``). error: what the computation met. Collective."""
        with self.timeline.phase("wait"):
            self.exchange.comm.agree(error)
        summed = []
        for road in self.exchange.roads:
            with self.timeline.phase(road.phase):
                summed += road.push()
        yield summed

    def end(self):
        """Let go of what the step has used: it does one thing after the other, so nobody waits. Local."""


class ComingRows:
    """The rows that a rank's microbatches need, fetched road by road and round by round. Local, but for ``fetch``.

    names: the sparse variables.  needs, wanted: see ``Exchange.begin``.
    """

    def __init__(self, exchange, needs, wanted):
        self.names, self.road_of = [v.name for v in exchange.variables if v.sparse], exchange.road_of
        self.needs = {leaf: ids for leaf, ids in needs.items() if ids is not None}
        self.index = {leaf: index for index, leaf in enumerate(self.needs)}
        self.wanted, self.fetched = wanted, {name: Fetched(rows) for name, rows in wanted.items()}

    def fetch(self, road, number: int):
        """Fetch a round's values on a road: rows, and in round 0 whole values of dense variables. Collective."""
        asked = {v.name: self.wanted[v.name].fresh[number] for v in road.variables if v.sparse}
        if asked or number == 0:
            for name, rows in road.pull(asked).items():
                self.fetched[name].put(number, rows)

    def round_of(self, leaf: int, name: str) -> int | None:
        """Return after which round a microbatch's rows of a variable are here; None if they always are."""
        return self.wanted[name].round_of[self.index[leaf]] if name in self.wanted else None

    def rows(self, leaf: int, name: str):
        """Return the (k, d) rows of a variable that a microbatch needs, once they are here."""
        if name in self.wanted:
            return self.fetched[name].take(self.index[leaf])
        return self.road_of[name].pull({name: self.needs[leaf][name]})[name]
