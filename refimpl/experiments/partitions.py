"""How long a step takes with P partitions: each P is measured several times, in random order, to see the noise.

A search measures each P once, one after another, so it cannot tell an effect of P from a moment when machines are slow.
"""

import numpy as np

from refimpl.experiments.bench.timing import time_together
from refimpl.plan.make import with_partitions
from refimpl.training.planning.partition_trials import repartition
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator


def measure_partitions(model, data, options, comm, counts, times: int, steps: int = 3) -> dict[int, list[float]]:
    """Train, and return P -> mean seconds of ``steps`` steps, ``times`` of them. Collective; the same on all ranks.

    counts: the P to measure, in a new random order each time. The slowest rank's time counts, and the step after each
    change of P does not. Raises what a training raises, and ValueError if no variable has partitions.
    """
    comm = Communicator.of(comm)
    trainer = Trainer.open(model, data, options, comm)
    if not trainer.plan.partitioned(model.variables):
        raise ValueError(f"no variable of this model goes to the server under architecture {trainer.plan.architecture}")
    order, found = np.random.default_rng(options.seed), {count: [] for count in counts}
    for _ in range(times):
        for count in order.permutation(counts).tolist():
            repartition(trainer.parameters, with_partitions(trainer.plan, model.variables, count))
            trainer.train_step()
            found[count].append(time_together(comm, trainer.train_step, steps))
    return found
