"""Large batches: a whole training with LARS or LAMB, of ``layerwise``.

With k times the batch one takes k times the rate, and lets the rate rise in the first steps. If momentum is written as
v = mu v + rate g; w -= v, then v must be scaled when the rate rises (momentum correction, Goyal et al. 2017). Here it
is v = mu v + g; w -= rate v. This form needs no correction.

    mpirun -n 4 python -m refimpl.plain.training.large_batches
"""

import os

if __name__ == "__main__":  # NumPy reads these when it is imported. More threads may add in another order
    os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "NUMBA")}

from dataclasses import replace

from mpi4py import MPI

from models.recipe import build, recipe_of
from refimpl.plain.messages import Messages
from refimpl.plain.strategies.replicas import Replica
from refimpl.plain.training.hybrid import Hybrid, Options
from refimpl.plain.updating.layerwise import LAYERWISE, Layerwise


class LargeBatches(Hybrid):
    """A ``Hybrid`` whose optimizer is LARS or LAMB. All ranks have the same replicas, and rank 0 counts them."""

    def __init__(self, model, data, options, comm, architecture="hybrid"):
        # Hybrid knows only element by element optimizers. It begins with SGD, which is replaced below.
        super().__init__(model, data, replace(options, optimizer="sgd", optimizer_options={}), comm, architecture)
        counted = [name for name, home in self.strategies.items()
                   if self.messages.rank == 0 or not isinstance(home, Replica)]
        self.optimizer = Layerwise(model.variables, self.optimizer.values, options, self.messages, counted)


def main(comm=MPI.COMM_WORLD):
    """Train as ``refimpl train lm --steps 3 --optimizer ...`` does."""
    messages = Messages(comm)
    for name in LAYERWISE:
        recipe, chosen = recipe_of("lm", {"rate_steps": 3, "optimizer": name})
        training = LargeBatches(*build(recipe, 0)[:2], Options(**chosen), comm)
        for _ in range(3):
            training.step()
        messages.tell(f"lm by {name}: parameters sha256 {training.sha256()}")


if __name__ == "__main__":
    main()
