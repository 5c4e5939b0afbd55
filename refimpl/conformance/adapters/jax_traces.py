"""Train the golden traces' models in plain JAX, one process, and write what came of it as a trace.

    python -m refimpl.conformance.adapters.jax_traces lm jax-lm          # or cnn, nmt, vgg; float64 as third argument
    python -m refimpl conformance check jax-lm

Begins from our inputs and start and computes everything itself: jax.value_and_grad, sums over microbatches, and optax,
which clips too. The gradient of a look-up is dense; the trace gets its rows that are not 0.
"""

import sys

import jax
import jax.numpy as jnp
import optax

from refimpl.conformance.adapters.jax_models import LOSSES
from refimpl.conformance.adapters.jax_optax import OPTIMIZERS
from refimpl.conformance.adapters.traced import TraceTraining, train
from refimpl.conformance.semantics import Semantics


class JaxTraceTraining(TraceTraining):
    """A golden trace's training in JAX. Its float64 needs ``jax_enable_x64``, before it is made."""

    semantics = Semantics(name=f"JAX {jax.__version__}, optax {optax.__version__}, one process", dense="sum",
                          sparse="sum", untouched="decayed", adagrad="inside")
    slots = {"adagrad": ("accumulator", "sum_of_squares"), "momentum": ("velocity", "trace")}

    def __init__(self, ours):
        super().__init__(ours)
        how = self.training
        optimizer = optax.chain(optax.clip_by_global_norm(how["clip"]),
                                OPTIMIZERS[how["optimizer"]](how["rate"], **how["options"]))
        self.optimizer_state = optimizer.init(self.of_trained(self.values))

        def updated(values, gradients, state):
            changes, state = optimizer.update(gradients, state, values)
            return optax.apply_updates(values, changes), state, optax.tree.norm(gradients)

        self.updated = jax.jit(updated)
        self.differentiate = jax.jit(jax.value_and_grad(LOSSES[ours.name], has_aux=True))

    def of_trained(self, arrays) -> dict:
        """Return those of what is trained."""
        return {name: arrays[name] for name in self.trained}

    def array(self, array):
        """Return an array; what is a float in the training's precision, or all that meets it would be wider."""
        return jnp.asarray(array.astype(self.ours.precision) if array.dtype.kind == "f" else array)

    def gradients(self, batch, state):
        """Return what JAX's differentiation gives."""
        (loss, (after, notes)), found = self.differentiate(self.of_trained(self.values), batch, state)
        state.update(after)
        return loss, found | notes

    def update(self, total):
        """Let the optimizer make one step."""
        values, self.optimizer_state, norm = self.updated(self.of_trained(self.values), self.of_trained(total),
                                                          self.optimizer_state)
        self.values |= values
        return norm.item()

    def slot(self, name, called):
        """Return what the optimizer keeps beside a parameter."""
        return optax.tree.get(self.optimizer_state, called)[name]


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    sys.exit(train(JaxTraceTraining, sys.argv[1:]))
