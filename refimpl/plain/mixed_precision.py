"""Mixed precision: weights, activations and gradients of 16 bits beside float32 masters, and a scale for the loss.

    masters w, float32     compute with half(w)     every layer's output, and every gradient, is rounded: half(...)
    fp16 has nothing below 6e-8: small gradients vanish. So the loss is multiplied by S, the sum of gradients divided.

    S is a power of two: it moves no bit as long as nothing vanishes or overflows
    a gradient overflows on any rank   all ranks leave this step out, S := S / 2
    n good steps in a row              S := 2 S

Ranks that decide by themselves part: one leaves the step out, the others do it. S and the count of good steps belong to
the checkpoint. A CPU computes in float32; ``half`` emulates hardware that rounds what a layer puts out.

    mpirun -n 4 python -m refimpl.plain.mixed_precision
"""

import hashlib

import numpy as np
from mpi4py import MPI

from kernels.random.definition import key_of, uniform
from refimpl.plain.allreduce import allreduce
from refimpl.plain.codecs import Rounded
from refimpl.plain.messages import Messages
from refimpl.plain.tree import form_nodes, microbatches_of

MICROBATCHES, WIDTHS = 8, (6, 5, 3)


def half(x, kind):
    """Return x, float32, as 16 bits can hold it. kind: "fp16" or "bf16"."""
    codec = Rounded(kind)
    with np.errstate(over="ignore"):  # beyond its range lies infinity
        return codec.decode(codec.encode(np.ascontiguousarray(x, np.float32).reshape(-1), 0, None)).reshape(x.shape)


class LossScale:
    """The dynamic scale S. good: steps since it changed.  patience: n above."""

    def __init__(self, scale=2.0**16, good=0, patience=3):
        self.scale, self.good, self.patience = scale, good, patience

    def learn(self, overflows):
        """Hear whether a gradient of this step overflowed anywhere."""
        if overflows:
            self.scale, self.good = self.scale / 2, 0
        else:
            self.good += 1
            if self.good == self.patience:
                self.scale, self.good = self.scale * 2, 0


class MixedTraining:
    """Two layers, relu between them, squared error. masters: [(6, 5), (5, 3)] float32, alike on all ranks."""

    def __init__(self, messages, kind="fp16", loss_scale=None, loud=1.0):
        self.messages, self.kind, self.loss_scale = messages, kind, loss_scale or LossScale()
        self.loud, self.steps_done = loud, 0
        self.masters = [self.draw("weight", layer, shape) for layer, shape in enumerate(zip(WIDTHS, WIDTHS[1:]))]

    def draw(self, *what):
        """Return numbers in [-1, 1) that depend only on their name; what: its words, and the shape last."""
        return (2 * uniform(key_of(*what), int(np.prod(what[-1]))) - 1).astype(np.float32).reshape(what[-1])

    def gradients(self, microbatch):
        """Return the gradients of S times the loss, rounded: one vector. The first input is ``loud`` times as large."""
        w1, w2 = (half(w, self.kind) for w in self.masters)
        x, target = (self.draw(name, self.steps_done, microbatch, (4, n)) for name, n in (("x", 6), ("y", 3)))
        x = half(x * np.float32(self.loud if microbatch == 0 else 1), self.kind)
        hidden = half(np.maximum(x @ w1, 0), self.kind)
        y = half(hidden @ w2, self.kind)
        with np.errstate(over="ignore", invalid="ignore"):
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
        found, done = [self.gradients(v) for v in range(first, stop)], False
        overflows, scale = self.overflows(found), np.float32(self.loss_scale.scale)
        if not overflows:
            nodes, done = form_nodes(first, found, np.add), True
            vectors = np.array(list(nodes.values()), np.float32).reshape(len(nodes), -1)
            total, at = allreduce(self.messages, vectors, MICROBATCHES) / scale, 0
            for w in self.masters:
                w -= np.float32(rate) * total[at:at + w.size].reshape(w.shape)
                at += w.size
        self.loss_scale.learn(overflows)
        self.steps_done += 1
        return done

    def sha256(self):
        """Return the hash of the masters, the beginning of it."""
        return hashlib.sha256(b"".join(w.tobytes() for w in self.masters)).hexdigest()[:8]


def main(comm=MPI.COMM_WORLD):
    """Train with an input on rank 0 that overflows: all leave the same steps out, on any number of ranks."""
    for kind, loud in (("bf16", 1.0), ("fp16", 1.0), ("fp16", 16.0)):
        training = MixedTraining(Messages(comm), kind, loud=loud)
        done = [training.step() for _ in range(12)]
        training.messages.tell(f"{kind}, loud {loud:4}: did {''.join('.x'[d] for d in done)}, the scale is "
                               f"{training.loss_scale.scale:.0f}, masters {training.sha256()}")


if __name__ == "__main__":
    main()
