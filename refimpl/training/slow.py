"""A straggler: a model that computes more slowly than it could, as on a slower machine."""

import time


class Slowed:
    """A ``Model`` with the results of ``model`` that takes ``factor`` times as long, because it sleeps. Local."""

    def __init__(self, model, factor: float):
        self.model, self.factor = model, factor

    def __getattr__(self, name):
        return getattr(self.model, name)

    def loss_and_gradients(self, dense, rows, batch):
        begin = time.process_time()  # of all threads, but not what it waits for values that arrive meanwhile
        found = self.model.loss_and_gradients(dense, rows, batch)
        time.sleep((self.factor - 1) * (time.process_time() - begin))
        return found


def slowed(model, options, rank: int):
    """Return a rank's model, slowed if ``Options.slow_rank`` names the rank. Local."""
    factor = options.slow_rank.get(str(rank), 1.0)
    return model if factor == 1.0 else Slowed(model, factor)
