"""As ``sequential``, but rows come, and a bucket's gradients leave, while the rank computes. There is no thread.

    the model       layer 1 ─▶ layer 2 ─▶ layer 3 ─▶ layer 2 ─▶ layer 1       gradients are sent when they are final;
    the network     ─▶ rows of layer 3 ──▶          bucket B ───▶ bucket A    sums under way make progress each time

The sums have the same bits. Equals ``refimpl.plain.training.hybrid``.
"""

from refimpl.training.step.arriving import Arriving
from refimpl.training.step.sequential import LeavingStep
from refimpl.transport.waiting import keep_for_ever


class EarlyStep(LeavingStep):
    """The exchanges of a step. The constructor is local; all ranks call ``begin`` and ``sums``. See LeavingStep.

    Here ``ready`` is collective, too.
    """

    pulls: dict = {}  # exchange -> a generator that finishes its pull, in an order that is the same on all ranks

    def _pull_all(self, exchanges):
        """Begin to pull. Rows on the server may still be on their way when the computation begins."""
        self.pulls = {exchange: self._pulling(exchange) for exchange in reversed(exchanges)}
        for _ in range(1 + self.parameters.plan.pull_rounds):  # then all other pulls are complete
            for pull in self.pulls.values():
                next(pull, None)

    def _pulling(self, exchange):
        for number in range(self.parameters.plan.pull_rounds):
            yield from self.coming.fetching(exchange, number)

    def _finish_pull(self, exchange):
        """Finish the pulls up to that of an exchange. In another order two ranks could wait for each other."""
        while exchange in self.pulls:
            with self.timeline.phase("pull"):
                for _ in self.pulls.pop(next(iter(self.pulls))):
                    pass

    def rows(self, leaf):
        """Return name -> rows of each sparse variable that a microbatch needs; a look-up waits for them."""
        def look_up(name):
            self.moving = True
            self._finish_pull(self.coming.exchange_of[name])
            self.moving = False
            return self.coming.rows(leaf, name)

        return Arriving(self.coming.names, look_up)

    def _leave(self, exchange):
        self._finish_pull(exchange)  # the model may not have looked its rows up
        exchange.begin()

    def _leave_all(self, exchanges):
        """Begin the sums that are complete, or will never be; let those under way make progress."""
        self.moving = True
        super()._leave_all(exchanges)
        for exchange in self.left:
            exchange.advance()
        self.moving = False

    def sums(self):
        """Yield what each exchange sums, so that the norm of rows is computed while dense sums are on their way."""
        for exchange in self.parameters.exchanges:
            with self.timeline.phase(exchange.phase):
                pieces = self._push(exchange)
            yield pieces

    def _push(self, exchange):
        """While this rank waits for an exchange, let the others make progress."""
        waiter = self.parameters.comm.waiter
        before, others = waiter.beside, [other for other in self.left if other is not exchange]

        def beside():
            moved = [other.advance() for other in others]
            return bool(before is not None and before()) or any(moved)

        waiter.beside = beside
        try:
            return exchange.push()
        finally:
            waiter.beside = before

    def end(self):
        """After an error, keep the memory in which messages may still arrive. Local."""
        pushes = [exchange.pushing for exchange in self.left if exchange.pushing is not None]
        if self.pulls or pushes:
            keep_for_ever((self.pulls, pushes))
