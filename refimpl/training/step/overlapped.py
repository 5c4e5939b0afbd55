"""The exchanges of a step during its computation: a thread pulls rows and pushes gradients while the rank computes.

The thread (``Background``) pulls in the model's order, bucket by bucket, and the rows of one microbatch after the
other. It pushes each bucket, in the plan's order, when its gradients of the rank's last microbatch are computed, while
the backward pass continues. The sums have the same bits.
"""

from functools import partial

from kernels.arrays import aligned, read_only
from refimpl.training.step.arriving import Arriving
from refimpl.training.step.background import Background, Job
from refimpl.training.step.sequential import LeavingStep


class OverlappedStep(LeavingStep):
    """The exchanges of a step during its computation. The constructor is local; all ranks call ``begin`` and ``sums``.

    Meanwhile no other code on this rank may use the communicator. Arguments: see ``SequentialStep``.
    dense: name -> value of every dense variable; a look-up waits for a value that is under way.
    """

    def __init__(self, parameters, needs, wanted, timeline, streams):
        super().__init__(parameters, needs, wanted, timeline)
        self.streams, self.exchange_of = streams, parameters.exchange_of
        self.pulls = {(number, exchange): Job(partial(self._pull, exchange, number))
                      for number in range(parameters.plan.pull_rounds) for exchange in reversed(parameters.exchanges)
                      if not exchange.replicated}
        self.pushes = {exchange: Job(partial(self._push, exchange), awaited=True) for exchange in parameters.exchanges}
        self.kept: list = []
        self.background = Background(parameters.comm, [*self.pulls.values(), *self.pushes.values()], timeline, streams)
        self.dense = self._dense()

    def begin(self):
        """Begin to pull in the thread. Collective."""
        if self.last is None:
            self._leave_all(self.parameters.exchanges)
        self.background.start()

    def _dense(self):
        values = {name: value for exchange in self.pushes for name, value in exchange.dense().items()}
        coming = {name for exchange in self.pushes if not exchange.replicated for name in exchange.dense()}

        def look_up(name):
            if name in coming:
                self.background.wait(self.pulls[0, self.exchange_of[name]])
            return read_only(aligned(values[name]))

        return Arriving(values, look_up)

    def rows(self, leaf: int) -> Arriving:
        """Return name -> rows of each sparse variable that a microbatch needs; a look-up waits for them. Local."""
        def look_up(name):
            number = self.coming.round_of(leaf, name)
            if number is not None:
                self.background.wait(self.pulls[number, self.exchange_of[name]])
            return self.coming.rows(leaf, name)

        return Arriving(self.coming.names, look_up)

    def sums(self):
        """Yield lists of this rank's parts of the sums (``ReducedGradient``), each when it is complete. Collective.

        The communicator is free after the last list.
        """
        for job in self.pushes.values():
            yield self.background.wait(job)
        self.background.finish()

    def end(self):
        """Drop the step's arrays, after all work that uses them was launched, or the step has failed. Local.

        Not earlier, because then each GPU stream waits for the other, so that memory of one can be used by the other
        again.
        """
        self.streams.meet()
        self.kept, self.pulls, self.pushes, self.dense = [], {}, {}, {}  # which hold each other

    def _leave(self, exchange):
        self.kept += exchange.held()  # computed here, and read there
        self.pushes[exchange].release(self.streams.mark())

    def _pull(self, exchange, number):
        with self.timeline.phase("pull"):
            self.coming.fetch(exchange, number)

    def _push(self, exchange):
        with self.timeline.phase(exchange.phase):
            return exchange.push()
