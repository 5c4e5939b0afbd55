"""As ``sequential``, but the sum of a bucket of dense gradients begins when all of them are computed, without a thread.

    backward pass   layer 3 ─▶ layer 2 ─▶ layer 1       a layer's gradients are sent when they are final;
    the network        bucket B ─────▶ bucket A ──▶     sums under way make progress each time

The sums have the same bits.
"""

from refimpl.training.step.sequential import LeavingStep


class EarlyStep(LeavingStep):
    """The exchanges of a step. The constructor is local; all ranks call ``begin`` and ``sums``. See LeavingStep.

    Here ``ready`` is collective, too.
    """

    def _leave(self, exchange):
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
