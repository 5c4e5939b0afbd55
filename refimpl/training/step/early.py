"""As ``sequential``, but the sum of a bucket of dense gradients begins as soon as they are all there, without a thread.

    backward pass   layer 3 ─▶ layer 2 ─▶ layer 1       a layer's gradients leave when they are final;
    the network        bucket B ─────▶ bucket A ──▶     what is under way goes on each time that some are

What is summed is the same, and so is every bit of it. A rank whose computation fails still takes its part in every sum,
so that no rank waits for it; then all agree to stop.
"""

from refimpl.training.step.sequential import LeavingStep
from refimpl.transport import Aborted, CollectiveError, SilentPeer


class EarlyStep(LeavingStep):
    """One step's exchanges. Local to make; all ranks ``begin`` it and take its ``sums`` together. See LeavingStep.

    under_way: exchanges whose sums have begun.  Its ``ready``, too, is collective.
    moving: whether messages are begun right now. An error met then may have left a sum without its next message.
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
                raise  # a rank takes no part any more: what is under way stays so
            for exchange in self.parameters.exchanges:  # all ranks in one order: in another they wait for each other
                exchange.finish()
            raise

    def _leave(self, exchange):
        exchange.begin()
        self.under_way.append(exchange)

    def _leave_all(self, exchanges):
        """Let sums begin whose gradients are all there, or never will be; let all go on that are under way."""
        self.moving = True
        super()._leave_all(exchanges)
        for exchange in self.under_way:
            exchange.advance()
        self.moving = False
