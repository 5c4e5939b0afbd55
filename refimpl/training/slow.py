"""A straggler: a model whose computation takes longer than it need, as on a slower machine."""

import time


class Slowed:
    """A ``Model`` that computes like ``model`` and takes ``factor`` times as long: it sleeps after it. Local."""

    def __init__(self, model, factor: float):
        self.model, self.factor = model, factor

    def __getattr__(self, name):
        return getattr(self.model, name)

    def loss_and_gradients(self, dense, rows, batch):
        """Return what the model does, after that time."""
        begin = time.process_time()  # of all threads, but not what it waits for values that arrive meanwhile
        found = self.model.loss_and_gradients(dense, rows, batch)
        time.sleep((self.factor - 1) * (time.process_time() - begin))
        return found


def slowed(model, options, rank: int):
    """Return the model of a rank, slowed as ``Options.slow_rank`` says. Local."""
    factor = options.slow_rank.get(str(rank), 1.0)
    return model if factor == 1.0 else Slowed(model, factor)
