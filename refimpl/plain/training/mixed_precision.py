"""Mixed precision: compute with numbers of 16 bits, keep float32 weights (the masters), and scale the loss.

    masters w, float32     compute with half(w)     every layer's output, and every gradient, is rounded: half(...)

fp16 has no numbers between 0 and 6e-8, so small gradients would become 0. Therefore the loss is multiplied by S, and
the sum of the gradients is divided by S. S is a power of two. So a gradient keeps its bits, unless it vanishes or
overflows. S changes during the training:

    a gradient overflows on any rank   all ranks leave this step out, S := S / 2
    n good steps in a row              S := 2 S

All ranks must agree. If each decided by itself, one rank could leave out a step that others do. S and the count of good
steps belong in the checkpoint. A CPU computes in float32; ``half`` emulates hardware that rounds to 16 bits.

    mpirun -n 4 python -m refimpl.plain.training.mixed_precision
"""

import os

if __name__ == "__main__":  # NumPy reads these when it is imported. More threads may add in another order
    os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "NUMBA")}

import hashlib

import numpy as np
from mpi4py import MPI

from kernels.random.definition import key_of, uniform
from refimpl.plain.adding.tree import form_nodes, microbatches_of
from refimpl.plain.collectives.allreduce import allreduce
from refimpl.plain.encoding.codecs import Rounded
from refimpl.plain.messages import Messages

MICROBATCHES, WIDTHS = 8, (6, 5, 3)


def half(x, kind):
    """Return x, float32, as 16 bits can hold it. kind: "fp16" or "bf16"."""
    codec = Rounded(kind)
    with np.errstate(over="ignore"):  # a number that is too large becomes infinity
        return codec.decode(codec.encode(np.ascontiguousarray(x, np.float32).reshape(-1), 0, None)).reshape(x.shape)


class LossScale:
    """The dynamic scale S. good: steps since it changed.  patience: n above."""

    def __init__(self, scale=2.0**16, good=0, patience=3):
        self.scale, self.good, self.patience = scale, good, patience

    def learn(self, overflows):
        """Change S after a step. overflows: whether a gradient of this step overflowed on any rank."""
        if overflows:
            self.scale, self.good = self.scale / 2, 0
        else:
            self.good += 1
            if self.good == self.patience:
                self.scale, self.good = self.scale * 2, 0


class MixedTraining:
    """Two layers, relu between them, squared error. masters: [(6, 5), (5, 3)] float32, the same on all ranks.

    loud: the first microbatch's input is multiplied by this number, so that gradients overflow in the example below.
    """

    def __init__(self, messages, kind="fp16", loss_scale=None, loud=1.0):
        self.messages, self.kind, self.loss_scale = messages, kind, loss_scale or LossScale()
        self.loud, self.steps_done = loud, 0
        self.masters = [self.draw("weight", layer, shape) for layer, shape in enumerate(zip(WIDTHS, WIDTHS[1:]))]

    def draw(self, *what):
        """Return random numbers in [-1, 1) that depend only on ``what``: words and numbers, the shape at the end."""
        return (2 * uniform(key_of(*what), int(np.prod(what[-1]))) - 1).astype(np.float32).reshape(what[-1])

    def gradients(self, microbatch):
        """Return the rounded gradients of S times the loss, as one vector, for one microbatch."""
        w1, w2 = (half(w, self.kind) for w in self.masters)
        x, target = (self.draw(name, self.steps_done, microbatch, (4, n)) for name, n in (("x", 6), ("y", 3)))
        x = half(x * np.float32(self.loud if microbatch == 0 else 1), self.kind)
        hidden = half(np.maximum(x @ w1, 0), self.kind)
        y = half(hidden @ w2, self.kind)
        with np.errstate(over="ignore", invalid="ignore"):
            # the loss is the mean over 4 examples of each microbatch, times S
            dy = half((y - target) * np.float32(self.loss_scale.scale / (4 * MICROBATCHES)), self.kind)
            dw2, dhidden = half(hidden.T @ dy, self.kind), half(dy @ w2.T, self.kind)
            dw1 = half(x.T @ (dhidden * (hidden > 0)), self.kind)
        return np.concatenate([dw1.reshape(-1), dw2.reshape(-1)])

    def overflows(self, found):
        """Return whether any rank found a gradient that is not finite. Collective."""
        mine = not all(np.isfinite(g).all() for g in found)
        return bool(np.any(self.messages.gather(np.array([mine]), "overflow")))

    def step(self, rate=0.5):
        """Do one step, or leave it out; return whether it was done, the same on every rank. Collective."""
        first, stop = microbatches_of(self.messages.rank, self.messages.size, MICROBATCHES)
        found = [self.gradients(v) for v in range(first, stop)]
        overflows = self.overflows(found)
        if not overflows:
            nodes = form_nodes(first, found, np.add)
            vectors = np.array(list(nodes.values()), np.float32).reshape(len(nodes), -1)
            total = allreduce(self.messages, vectors, MICROBATCHES) / np.float32(self.loss_scale.scale)
            for w, part in zip(self.masters, np.split(total, [self.masters[0].size])):
                w -= np.float32(rate) * part.reshape(w.shape)
        self.loss_scale.learn(overflows)
        self.steps_done += 1
        return not overflows

    def sha256(self):
        """Return the first 8 characters of the hash of the masters."""
        return hashlib.sha256(b"".join(w.tobytes() for w in self.masters)).hexdigest()[:8]


def main(comm=MPI.COMM_WORLD):
    """Train with an input on rank 0 that overflows: all leave the same steps out, on any number of ranks."""
    for kind, loud in (("bf16", 1.0), ("fp16", 1.0), ("fp16", 16.0)):
        training = MixedTraining(Messages(comm), kind, loud=loud)
        done = [training.step() for _ in range(12)]
        shown = "".join("x" if step else "." for step in done)
        training.messages.tell(f"{kind}, loud {loud:4}: did {shown}, the scale is "
                               f"{training.loss_scale.scale:.0f}, masters {training.sha256()}")


if __name__ == "__main__":
    main()
