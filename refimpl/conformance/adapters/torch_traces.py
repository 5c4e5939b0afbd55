"""Train the golden traces' models in plain PyTorch, one process, and write what came of it as a trace.

    python -m refimpl.conformance.adapters.torch_traces lm torch-lm      # or cnn, nmt, vgg; float64 as third argument
    python -m refimpl conformance check torch-lm

Begins from our inputs and start and computes everything itself: forward and backward passes, sums over microbatches,
clipping, torch.optim. An example of a trace from elsewhere.
"""

import sys

import numpy as np
import torch

from refimpl.conformance.adapters.torch_models import LOSSES
from refimpl.conformance.adapters.torch_training import OPTIMIZERS
from refimpl.conformance.case import Rows
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.traces.format import Trace, write_trace
from refimpl.conformance.traces.golden import golden

SEMANTICS = Semantics(name=f"PyTorch {torch.__version__}, one process", dense="sum", sparse="sum",
                      untouched="decayed-by-momentum")
SLOTS = {"adagrad": ("accumulator", "sum"), "momentum": ("velocity", "momentum_buffer")}
"""optimizer -> what its state is called here, and in torch.optim."""


class TraceTraining:
    """A golden trace's training. ours: its inputs and start are read, nothing else."""

    def __init__(self, ours: Trace):
        self.ours, self.training = ours, ours.head["training"]
        self.statistics = {v["name"] for v in ours.head["variables"] if v["statistic"]}
        self.names = [v["name"] for v in ours.head["variables"]]
        self.values = {n: torch.tensor(ours.get("start", None, n), requires_grad=n not in self.statistics)
                       for n in self.names}
        self.trained = [n for n in self.names if n not in self.statistics]
        self.optimizer = OPTIMIZERS[self.training["optimizer"]](
            [self.values[n] for n in self.trained], self.training["rate"], self.training["options"])
        self.state: dict[int, dict] = {}
        self.trace = ours.only(("inputs", "start"))
        self.trace.head |= {"semantics": SEMANTICS.to_json(), "joined_at": "model"}

    def run(self) -> Trace:
        """Train to the end and return the trace."""
        for step in range(self.training["steps"]):
            self.step(step)
        return self.trace

    def step(self, step: int):
        """Do one step and note it in the trace."""
        total, loss = {}, 0.0
        for leaf in range(self.training["microbatches"]):
            if self.ours.get("inputs", step, "targets", leaf) is not None:
                loss += self.microbatch(step, leaf, total)
        for name in self.trained:
            self.values[name].grad = total[name].coalesce() if total[name].is_sparse else total[name]
        self._note_gradients("aggregated", step, {n: self.values[n].grad for n in self.trained} |
                             {n: total[n] for n in self.statistics})
        norm = self.clip()
        self.trace.add("metrics", step, "loss", np.float64(loss))
        self.trace.add("metrics", step, "gradient_norm", np.float64(norm))
        self.optimizer.step()
        for name in self.statistics:
            self.values[name] += self.training["statistic_rate"] * (total[name] - self.values[name])
        ours, theirs = SLOTS[self.training["optimizer"]]
        for name in self.names:
            self.trace.add("parameters", step, name, self.values[name].detach().numpy())
        for name in self.trained:
            self.trace.add("state", step, name, self.optimizer.state[self.values[name]][theirs].numpy(), part=ours)

    def microbatch(self, step, leaf, total) -> float:
        """Add a microbatch's gradients to ``total``; return its loss."""
        batch = {place[3]: torch.from_numpy(np.array(array)) for place, array in self.ours.arrays.items()
                 if place[:3] == ("inputs", step, leaf)}
        state, notes = self._carried(step, leaf, batch), {}
        loss = LOSSES[self.ours.name](self.values, batch, state, notes)
        found = dict(zip(self.trained, torch.autograd.grad(loss, [self.values[n] for n in self.trained]))) | notes
        self._note_gradients("local", step, found, leaf)
        for name, gradient in found.items():
            total[name] = total[name] + gradient if name in total else gradient
        return loss.item()

    def _carried(self, step, leaf, batch) -> dict:
        """Return the LSTM's state from the step before; zeros where an epoch starts."""
        if "lstm0/projection" not in self.values:
            return {}  # nothing is carried
        state = self.state.setdefault(leaf, {})
        if batch["starts_epoch"].item() or not state:
            dtype, streams = self.values["embedding"].dtype, batch["inputs"].shape[1]
            hidden, width = self.values["lstm0/projection"].shape
            state |= {"lstm0/c": torch.zeros(streams, hidden, dtype=dtype),
                      "lstm0/h": torch.zeros(streams, width, dtype=dtype)}
        for name, value in state.items():
            self.trace.add("carried", step, name, value.numpy(), leaf)
        return state

    def clip(self) -> float:
        """Scale gradients to the largest norm allowed, rows with them; return the norm before."""
        values = [g._values() if g.is_sparse else g for g in (self.values[n].grad for n in self.trained)]
        norm, largest = torch.nn.utils.get_total_norm(values).item(), self.training["clip"]
        if largest is not None and norm > largest:
            torch._foreach_mul_(values, largest / norm)
        return norm

    def _note_gradients(self, stage, step, gradients, leaf=None):
        for name, g in gradients.items():
            if g.is_sparse:
                g = g.coalesce()
                g = Rows(g.indices()[0].numpy(), g.values().numpy())
            self.trace.add(stage, step, name, g if isinstance(g, Rows) else g.numpy(), leaf)


def main(arguments) -> int:
    """Train and write the trace. arguments: name, path [, precision]."""
    name, path, precision = [*arguments, "float32"][:3]
    print(*write_trace(TraceTraining(golden(name, precision)).run(), path), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
