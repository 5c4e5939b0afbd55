"""Train the golden traces' models in plain PyTorch, one process, and write what came of it as a trace.

    python -m refimpl.conformance.adapters.torch_traces lm torch-lm      # or cnn, nmt, vgg; float64 as third argument
    python -m refimpl conformance check torch-lm

Begins from our inputs and start and computes everything itself: forward and backward passes, sums over microbatches,
clipping, torch.optim. An example of a trace from elsewhere.
"""

import sys

import numpy as np
import torch

from refimpl.conformance.adapters.torch_ddp import OPTIMIZERS
from refimpl.conformance.adapters.torch_given import numbers
from refimpl.conformance.adapters.torch_models import LOSSES
from refimpl.conformance.adapters.traced import TraceTraining, train
from refimpl.conformance.case import Rows
from refimpl.conformance.semantics import Semantics


class TorchTraceTraining(TraceTraining):
    """A golden trace's training in PyTorch: gradients of look-ups are sparse tensors."""

    semantics = Semantics(name=f"PyTorch {torch.__version__}, one process", dense="sum", sparse="sum",
                          untouched="decayed-by-momentum")
    slots = {"adagrad": ("accumulator", "sum"), "momentum": ("velocity", "momentum_buffer")}

    def __init__(self, ours):
        super().__init__(ours)
        self.parameters = [self.values[n].requires_grad_() for n in self.trained]
        self.optimizer = OPTIMIZERS[self.training["optimizer"]](self.parameters, self.training["rate"],
                                                                self.training["options"])

    def array(self, array):
        """Return a tensor of its own memory."""
        return torch.from_numpy(np.array(array))

    def plain(self, array):
        """Return a tensor's numbers; of a sparse gradient Rows."""
        found = numbers(array.detach())
        return Rows(*found) if array.is_sparse else found

    def gradients(self, batch, state):
        """Return what autograd gives."""
        loss = LOSSES[self.ours.name](self.values, batch, state, notes := {})
        return loss, dict(zip(self.trained, torch.autograd.grad(loss, self.parameters))) | notes

    def update(self, total):
        """Let the optimizer make one step."""
        for name in self.trained:
            self.values[name].grad = total[name].coalesce() if total[name].is_sparse else total[name]
        norm = self.clip()
        self.optimizer.step()
        return norm

    def clip(self) -> float:
        """Scale gradients to the largest norm allowed, rows with them; return the norm before."""
        values = [p.grad._values() if p.grad.is_sparse else p.grad for p in self.parameters]
        norm, largest = torch.nn.utils.get_total_norm(values).item(), self.training["clip"]
        if largest is not None and norm > largest:
            torch._foreach_mul_(values, largest / norm)
        return norm

    def slot(self, name, called):
        """Return what the optimizer keeps beside a parameter."""
        return self.optimizer.state[self.values[name]][called]


if __name__ == "__main__":
    sys.exit(train(TorchTraceTraining, sys.argv[1:]))
