"""How far two trainings of a model drift apart if only the number of ranks differs.

With an allreduce in the reproducible order they never do (docs/design.md, I1). A ring's order of addition depends on
the number of ranks. In the first step the difference is a rounding error, and it grows with each step.
"""

import numpy as np

from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator


def measure_drift(build, options, comm, numbers=(2, 3, 4)) -> list[dict]:
    """Train on 1 rank and on the first n ranks of ``comm`` for each n; compare each with the first. Collective.

    build() -> (model, data), called for each training.  Returns on rank 0 a dict for each n (an empty list elsewhere):
    ranks, and for each step, changed: part of the parameters whose bits differ from those on 1 rank, and largest: the
    largest difference.  Raises ValueError for more ranks than there are.
    """
    comm = Communicator.of(comm)
    if not all(1 <= n <= comm.size for n in numbers):
        raise ValueError(f"drift on {', '.join(map(str, numbers))} ranks: there are 1 to {comm.size}, start more")
    found, alone = [], []
    for n in (1, *numbers):
        some = comm.first(n)
        if some is not None:
            model, data = build()
            states = _train(Trainer.open(model, data, options, some), options.steps)
            if comm.rank == 0:
                alone = alone or states
                pairs = list(zip(alone, states))
                changed = [float((a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}")).mean()) for a, b in pairs]
                found.append({"ranks": n, "changed": changed, "largest": [float(abs(a - b).max()) for a, b in pairs]})
            some.free()
        comm.meet("a training on fewer ranks")  # the other ranks sleep here
    return found[1:]


def _train(trainer: Trainer, steps: int) -> list:
    """Return rank 0's parameters after each step, as one flat array each."""
    states = []
    for _ in range(steps):
        trainer.train_step()
        values = [trainer.parameters.collect(v.name, None, False, "report") for v in trainer.model.variables]
        states.append(None if trainer.comm.rank else np.concatenate([value.ravel() for value in values]))
    return states
