"""As ``sequential``, but the sum of a bucket of dense gradients begins when all of them are computed, without a thread.

    backward pass   layer 3 ─▶ layer 2 ─▶ layer 1       a layer's gradients are sent when they are final;
    the network        bucket B ─────▶ bucket A ──▶     sums under way make progress each time

The sums have the same bits. If a rank's computation fails, it still takes part in every sum, so that no rank waits for
it. Then all agree to stop.
"""

from refimpl.training.step.sequential import LeavingStep
from refimpl.transport import Aborted, CollectiveError, SilentPeer


class EarlyStep(LeavingStep):
    """The exchanges of a step. The constructor is local; all ranks call ``begin`` and ``sums``. See LeavingStep.

    under_way: exchanges whose sums have begun. Here ``ready`` is collective, too.
    moving: whether messages are being started. After an error at this time a sum may lack its next message.
    """

    def __init__(self, parameters, needs, wanted, timeline):
        super().__init__(parameters, needs, wanted, timeline)
        self.under_way, self.moving = [], False

    def sums(self, error):
        if self.moving and error is not None:
            raise error  # the others would wait for that sum: only an abort message reaches them
        self._leave_all(exchange for exchange in self.parameters.exchanges if exchange not in self.under_way)
        try:
            yield from super().sums(error)
        except CollectiveError as problem:
            if isinstance(problem, (SilentPeer, Aborted)):
                raise  # a rank takes part no longer, so sums under way cannot end
            for exchange in self.parameters.exchanges:  # on all ranks in the same order
                exchange.finish()
            raise

    def _leave(self, exchange):
        exchange.begin()
        self.under_way.append(exchange)

    def _leave_all(self, exchanges):
        """Begin the sums that are complete, or will never be; let those under way make progress."""
        self.moving = True
        super()._leave_all(exchanges)
        for exchange in self.under_way:
            exchange.advance()
        self.moving = False
