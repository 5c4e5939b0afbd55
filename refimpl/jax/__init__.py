"""A loss written in JAX as a model: JAX computes loss and gradients, our step exchanges, clips and updates.

    model = JaxModel(loss, parameters)            loss(params, batch) -> the sum of the losses of batch's examples
    result = train(model, data, options=Options(optimizer="adam", learning_rate=0.001), output="runs/mine")
    params = model.load("runs/mine")              the tree of learned parameters

``docs/jax.md`` lists what is refused, and why. Nothing else in this project imports this room.
"""

import os

from models.frameworks.installed import require_installed

os.environ["PJRT_NPROC"] = "1"  # XLA's rounding depends on its number of threads; JAX reads this at its start

require_installed("jax", "JAX")

from refimpl.jax.arrays import Microbatch
from refimpl.jax.model import JaxModel
from refimpl.jax.rows import PulledRows

__all__ = ["JaxModel", "Microbatch", "PulledRows"]
