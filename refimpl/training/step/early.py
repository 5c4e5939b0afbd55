"""As ``sequential``, but the sum of a bucket of dense gradients begins as soon as they are all there, without a thread.

    backward pass   layer 3 ─▶ layer 2 ─▶ layer 1       a layer's gradients leave when they are final;
    the network        bucket B ─────▶ bucket A ──▶     what is under way goes on each time that some are

What is summed is the same, and so is every bit of it. A rank whose computation fails still takes its part in every sum,
so that no rank waits for it; then all agree to stop.
"""

from refimpl.training.step.sequential import ReadyGradients, SequentialStep
from refimpl.transport import Aborted, CollectiveError, SilentPeer


class EarlyStep(SequentialStep):
    """One step's exchanges. Local to make; all ranks ``begin`` it and take its ``sums`` together. See SequentialStep.

    under_way: exchanges whose sums have begun.
    moving: whether messages are begun right now. An error met then may have left a sum without its next message.
    """

    def __init__(self, parameters, needs, wanted, timeline):
        super().__init__(parameters, needs, wanted, timeline)
        self.last, self.under_way, self.sums_kept = max(needs, default=None), [], []
        self.gradients, self.moving = ReadyGradients(parameters.exchange_of), False

    def ready(self, leaf: int, gradients):
        """Take gradients that are ready before the others: an exchange takes its own when all are there. Collective."""
        full = self.gradients.take(leaf, gradients)
        self._leave(full if leaf == self.last else ())

    def add(self, leaf, gradients):
        if gradients is not None:
            self.ready(leaf, gradients)
            self.gradients.end()
            return
        super().add(leaf, None)
        if leaf == self.last:
            self._leave(self.parameters.exchanges)

    def put(self, leaf, node, sums):
        super().put(leaf, node, sums)
        if leaf == self.last:
            self._leave(self.parameters.exchanges)

    def formed(self):
        return self.sums_kept

    def sums(self, error):
        if self.moving and error is not None:
            raise error  # the others would wait for that sum: only an abort message reaches them
        self._leave(exchange for exchange in self.parameters.exchanges if exchange not in self.under_way)
        try:
            yield from super().sums(error)
        except CollectiveError as problem:
            if isinstance(problem, (SilentPeer, Aborted)):
                raise  # a rank takes no part any more: what is under way stays so
            for exchange in self.parameters.exchanges:  # all ranks in one order: in another they wait for each other
                exchange.finish()
            raise

    def _leave(self, exchanges):
        """Begin sums whose gradients are all there, or never will be; let all go on that are under way."""
        self.moving = True
        for exchange in exchanges:
            if self.keeps:
                self.sums_kept.append(exchange.formed())
            exchange.begin()
            self.under_way.append(exchange)
        for exchange in self.under_way:
            exchange.advance()
        self.moving = False
