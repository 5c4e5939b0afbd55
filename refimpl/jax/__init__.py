"""A loss written in JAX as a model: JAX computes loss and gradients; refimpl exchanges, clips and updates.

    model = JaxModel(loss, parameters)            loss(params, batch) -> the sum of the losses of batch's examples
    result = train(model, data, options=Options(optimizer="adam", learning_rate=0.001), output="runs/mine")
    params = model.load("runs/mine")              the tree of learned parameters
    LinenModel(loss, variables)                   a module of flax.linen
    NnxModel(module, loss)                        of flax.nnx
    EquinoxModel(loss, module, state)             of equinox
    optax_options(optimizer, steps, model)        the options of an optimizer of optax
    Trainer(model, optimizer)                     a loop of your own, with any optimizer of optax

``docs/jax.md`` lists what is refused, and why. Docstrings call a function *collective* if all ranks must call it, and
*local* if a rank may call it alone.
"""

import importlib
import os

from models.frameworks.installed import require_installed

os.environ["PJRT_NPROC"] = "1"  # XLA's rounding depends on its number of threads; JAX reads this at its start

require_installed("jax", "JAX")

from refimpl.jax.arrays import Microbatch
from refimpl.jax.model import JaxModel
from refimpl.jax.optimizers import optax_options
from refimpl.jax.rows import PulledRows
from refimpl.jax.trainer import JaxTrainer

Trainer = JaxTrainer

WITH = {"LinenModel": ("linen", "flax"), "NnxModel": ("nnx", "flax"), "EquinoxModel": ("equinox", "equinox")}
"""What needs a package of its own: name -> (its file here, the package)."""

__all__ = ["EquinoxModel", "JaxModel", "JaxTrainer", "LinenModel", "Microbatch", "NnxModel", "PulledRows", "Trainer",
           "optax_options"]


def __getattr__(name):
    """Import modules that need flax or equinox at their first use. Local."""
    if name not in WITH:
        raise AttributeError(f"refimpl.jax has no {name}; it has {', '.join(__all__)}")
    file, package = WITH[name]
    require_installed(package, package, f"refimpl.jax.{name}")
    return getattr(importlib.import_module(f"refimpl.jax.{file}"), name)
