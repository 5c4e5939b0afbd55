"""The exchanges of a step beside its computation: rows come while others compute with theirs, gradients leave early.

In a thread of its own (``Background``) a rank pulls in the model's order, bucket by bucket and one microbatch's rows
after the other's; then each bucket is pushed as soon as its gradients of the rank's last microbatch are there, in the
plan's order, while the backward pass goes on. What is summed is the same, and so is every bit of it.
"""

from functools import partial

from kernels.arrays import aligned
from refimpl.training.check import check_names, check_some
from refimpl.training.exchange.arriving import Arriving
from refimpl.training.exchange.background import Background, Job
from refimpl.training.exchange.sequential import ComingRows
from refimpl.training.scalars import Scalars


class OverlappedStep:
    """One step's exchanges through the roads of an ``Exchange``. Collective to make, and to take ``sums`` from.

    Meanwhile nobody else on this rank may use the communicator. needs, wanted: see ``Exchange.begin``.
    dense: name -> value of every dense variable; what is pulled is waited for where it is looked up.
    scalars: of this step.
    """

    def __init__(self, exchange, needs, wanted, timeline):
        self.roads, self.road_of, self.timeline = exchange.roads, exchange.road_of, timeline
        self.variables = {v.name: v for v in exchange.variables}
        self.last, self.scalars, self.streams = max(needs, default=None), Scalars(), exchange.streams
        self.taken: dict = {}  # the gradients of the microbatch at hand that were ready
        self.coming = ComingRows(exchange, needs, wanted)
        self.pulls = {(number, road): Job(partial(self._pull, road, number))
                      for number in range(exchange.plan.pull_rounds) for road in reversed(self.roads) if not road.local}
        self.pushes = {road: Job(partial(self._push, road), awaited=True) for road in self.roads}
        self.kept: list = []
        if not needs:
            self._release(self.roads)
        jobs = [*self.pulls.values(), *self.pushes.values()]
        self.background = Background(exchange.comm, jobs, timeline, self.streams)
        self.dense = self._dense()
        self.background.start()

    def _dense(self):
        values = {name: value for road in self.roads for name, value in road.dense().items()}
        coming = {name for road in self.roads if not road.local for name in road.dense()}

        def look_up(name):
            if name in coming:
                self.background.wait(self.pulls[0, self.road_of[name]])
            return aligned(values[name])

        return Arriving(values, look_up)

    def rows(self, leaf: int) -> Arriving:
        """Return name -> rows of each sparse variable that a microbatch needs, waited for where looked up. Local."""
        def look_up(name):
            number = self.coming.round_of(leaf, name)
            if number is not None:
                self.background.wait(self.pulls[number, self.road_of[name]])
            return self.coming.rows(leaf, name)

        return Arriving(self.coming.names, look_up)

    def ready(self, leaf: int, gradients):
        """Take gradients that are ready before the others: a road takes its own when it has all of them. Local.

        Raises ValueError for one that is not what its variable is.
        """
        new = {name: gradients[name] for name in gradients if name not in self.taken and name in self.variables}
        check_some(self.variables, new, leaf, self.scalars)
        self.taken |= new
        full = [road for road in dict.fromkeys(self.road_of[name] for name in new)
                if all(v.name in self.taken for v in road.variables)]
        for road in full:
            road.add(leaf, {v.name: self.taken[v.name] for v in road.variables})
        if leaf == self.last:
            self._release(full)

    def add(self, leaf: int, gradients):
        """Add a microbatch's gradients, None if it has no examples. Leaves come in order. Local.

        Raises ValueError for gradients that are not what the variables are, or not what was ready before.
        """
        if gradients is None:
            for road in self.roads:
                road.add(leaf, None)
            if leaf == self.last:
                self._release(self.roads)
            return
        check_names(self.variables, gradients)
        for name, gradient in self.taken.items():
            if gradients[name] is not gradient:
                raise ValueError(f"the gradient of {name!r} was ready, then another one was returned: call batch.ready "
                                 f"with what is final only")
        self.ready(leaf, gradients)
        self.taken = {}

    def sums(self, error: Exception | None):
        """Yield lists of what this rank holds of the sums (``Summed``), each as soon as it is there. Collective.

        error: what the computation met. It ends all ranks here, unless everything had left before: then it is for the
        caller to tell them. The comm is free again when all lists are taken.
        """
        if error is not None:
            self.background.fail(error)
        for job in self.pushes.values():
            yield self.background.wait(job)
        self.background.finish()

    def end(self):
        """Let go of what the step has used, all that uses it having been asked for, or the step having failed. Local.

        Not before: here each stream waits for the other, and only then uses what was the other's again.
        """
        self.streams.meet()
        self.kept, self.pulls, self.pushes, self.dense = [], {}, {}, {}  # which hold each other

    def _release(self, roads):
        for road in roads:
            self.kept += road.held()  # computed here, and read there
            self.pushes[road].release(self.streams.mark())

    def _pull(self, road, number):
        with self.timeline.phase("pull"):
            self.coming.fetch(road, number)

    def _push(self, road):
        with self.timeline.phase(road.phase):
            return road.push()
