"""Large batches: each variable steps in proportion to its own norm. And what momentum needs while the rate rises.

    LARS   ratio = trust ‖w‖ / (‖g‖ + decay ‖w‖);      v = mu v + ratio (g + decay w);      w -= rate v
    LAMB   u = m / (sqrt(v) + epsilon) + decay w;      ratio = ‖w‖ / ‖u‖;                   w -= rate ratio u
           m, v: Adam's moments of g, without their start at 0

With a ratio no variable moves by more than its part, however large the rate. It is 1 where a norm is 0, and for
variables without weight decay (biases). A norm is of the rows that have a gradient, wherever they lie: squares are
added up exactly, as in ``clipping``.

Linear scaling: k times the batch, k times the rate, which rises first. A velocity that holds the rate must be scaled
when the rate rises (momentum correction, Goyal et al. 2017). Ours, v = mu v + g; w -= rate v, needs no correction.

    mpirun -n 4 python -m refimpl.plain.layerwise
"""

import os

if __name__ == "__main__":  # more threads may add in another order; read when NumPy is imported
    os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "NUMBA")}

import math
from dataclasses import replace

import numpy as np
from mpi4py import MPI

from kernels.reductions.definition import sum_of_squares_per_row
from models.recipe import build, recipe_of
from refimpl.plain.clipping import Optimizer, exact_sum
from refimpl.plain.hybrid import Hybrid, Options
from refimpl.plain.messages import Messages
from refimpl.plain.optimizers import Adam, Momentum
from refimpl.plain.replicas import Replica


class LARS(Momentum):
    """You, Gitman, Ginsburg 2017: momentum, its gradient times a ratio."""

    def __init__(self, mu=0.9, trust=0.001):
        super().__init__(mu)
        self.trust = trust

    def measured(self, p, state, g, scale, decay, t):
        """Return what the values' norm is compared with: the gradient. scale: that of clipping, not applied yet."""
        return g

    def move(self, p, state, g, norms, scale, decay, rate, t):
        """Update, weight decay times the ratio as well. norms: of p and of g over all ranks."""
        ratio = self.trust * norms[0] / (scale * norms[1] + decay * norms[0]) if all(norms) else 1.0
        g = g * p.dtype.type(scale * ratio)
        self.update(p, state, g + p.dtype.type(decay * ratio) * p if decay else g, rate, t)


class LAMB(Adam):
    """You et al. 2020: Adam's direction, times a ratio."""

    def __init__(self, beta1=0.9, beta2=0.999, epsilon=1e-6):
        super().__init__(beta1, beta2, epsilon)

    def measured(self, p, state, g, scale, decay, t):
        """Move both moments; return the direction, weight decay in it."""
        m, v, g = state["first"], state["second"], g * p.dtype.type(scale)
        m[...], v[...] = self.first(m, g), self.second(v, g)
        u = self.step(m, v, g, 1.0, *self.corrections(t))
        return u + p.dtype.type(decay) * p if decay else u

    def move(self, p, state, u, norms, scale, decay, rate, t):
        """Step along the direction u. norms: of p and of u over all ranks."""
        p -= rate * (u * p.dtype.type(norms[0] / norms[1] if all(norms) else 1.0))


LAYERWISE = {"lars": LARS, "lamb": LAMB}


class Layerwise(Optimizer):
    """An ``Optimizer`` whose ranks agree on norms before a variable moves.

    counted: the names of variables that this rank counts in norms; of replicas one rank does.
    """

    rules = LAYERWISE

    def __init__(self, variables, values, options, messages, counted):
        super().__init__(variables, values, options)
        self.messages, self.counted = messages, counted

    def apply(self, v, at, gradient, scale, rate, t):
        """Update a variable by what this rank has of its gradient, if any. Collective."""
        p, decay = self.values[v.name][at], self.options.weight_decay if v.decays else 0.0
        state = {slot: array[at] for slot, array in self.state[v.name].items()}
        beside = self.rule.measured(p, state, gradient, scale, decay, t)
        norms = [self.norm(v, x) for x in (p, beside)] if v.decays else (0, 0)
        self.rule.move(p, state, beside, norms, scale, decay, rate, t)
        self.values[v.name][at] = p
        for slot, array in state.items():
            self.state[v.name][slot][at] = array

    def norm(self, v, x):
        """Return the norm of what all ranks have of a variable, x here. Collective."""
        rows = x.reshape(len(x) if x.ndim else 1, -1) if v.name in self.counted and x.size else np.empty((0, 1))
        return math.sqrt(exact_sum(self.messages, sum_of_squares_per_row(rows)))


class RateInside(Momentum):
    """v = mu v (rate / the last rate) + rate g;  w -= v.  corrected: False leaves out the fraction."""

    def __init__(self, mu, corrected):
        super().__init__(mu)
        self.corrected, self.last = corrected, None

    def velocity(self, v, g, rate):
        """Return the new velocity, of which the rate is a part."""
        risen, self.last = rate / self.last if self.corrected and self.last else 1.0, rate
        return self.mu * v * risen + rate * g

    def step(self, v, g, rate):
        """Return what is subtracted."""
        return v


class LargeBatches(Hybrid):
    """A ``Hybrid`` whose optimizer is LARS or LAMB. Replicas are alike on all ranks: rank 0 counts them."""

    def __init__(self, model, data, options, comm, architecture="hybrid"):
        super().__init__(model, data, replace(options, optimizer="sgd", optimizer_options={}), comm, architecture)
        counted = [name for name, home in self.strategies.items()
                   if self.messages.rank == 0 or not isinstance(home, Replica)]
        self.optimizer = Layerwise(model.variables, self.optimizer.values, options, self.messages, counted)


def main(comm=MPI.COMM_WORLD):
    """Train as ``refimpl train lm --steps 3 --optimizer ...`` does; show which momentum is right as the rate rises."""
    messages = Messages(comm)
    for name in LAYERWISE:
        recipe, chosen = recipe_of("lm", {"rate_steps": 3, "optimizer": name})
        training = LargeBatches(*build(recipe, 0)[:2], Options(**chosen), comm)
        for _ in range(3):
            training.step()
        messages.tell(f"lm by {name}: parameters sha256 {training.sha256()}")
    kinds = {"outside": Momentum(0.5), "inside": RateInside(0.5, True), "stale": RateInside(0.5, False)}
    for name, rule in kinds.items():
        w, state = np.ones(1), rule.state(np.ones(1))
        for t, rate in enumerate((0.125, 0.25, 0.5, 1.0)):  # powers of two: both orders round alike
            rule.update(w, state, np.full(1, 0.25), rate, t)
        messages.tell(f"the rate {name:7}: w = {w[0]}")


if __name__ == "__main__":
    main()
