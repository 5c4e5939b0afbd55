"""Train a golden trace's model in another framework, in one process: what is the same in PyTorch and JAX."""

import numpy as np

from refimpl.conformance.case import Rows
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.traces.format import Trace, write_trace
from refimpl.conformance.traces.golden import golden


class TraceTraining:
    """A golden trace's training, from our inputs and start. A subclass has the framework's part:

    array(array) -> its own array of the same numbers.
    gradients(batch, state) -> (loss, name -> gradient of what is trained, share of what is a statistic); it changes
    ``state`` to that of the microbatch's end.
    update(total) -> norm of the summed gradients, which it clips, and with which it updates what is trained.
    slot(name, called) -> the optimizer's state of a variable, by what the framework calls it.
    semantics: its manifest.  slots: optimizer -> (what its state is called here, and there).
    """

    semantics: Semantics
    slots: dict[str, tuple[str, str]]

    def __init__(self, ours: Trace):
        self.ours, self.training, self.state = ours, ours.head["training"], {}
        kinds = {v["name"]: v for v in ours.head["variables"]}
        self.trained = [n for n, v in kinds.items() if not v["statistic"]]
        self.statistics = [n for n, v in kinds.items() if v["statistic"]]
        self.sparse = {n for n, v in kinds.items() if v["sparse"]}
        self.values = {n: self.array(ours.get("start", None, n)) for n in kinds}
        self.trace = ours.only(("inputs", "start"))
        self.trace.head |= {"semantics": self.semantics.to_json(), "joined_at": "model"}

    def plain(self, array):
        """Return a copy of one of the framework's arrays; of a sparse gradient perhaps Rows."""
        return np.array(array)

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
        self._note_gradients("aggregated", step, total)
        norm = self.update(total)
        for name in self.statistics:
            self.values[name] = self.values[name] + self.training["statistic_rate"] * (total[name] - self.values[name])
        for what, number in (("loss", loss), ("gradient_norm", norm)):
            self.trace.add("metrics", step, what, np.float64(number))
        for name, value in self.values.items():
            self.trace.add("parameters", step, name, self.plain(value))
        ours, theirs = self.slots[self.training["optimizer"]]
        for name in self.trained:
            self.trace.add("state", step, name, self.plain(self.slot(name, theirs)), part=ours)

    def microbatch(self, step, leaf, total) -> float:
        """Add a microbatch's gradients to ``total``; return its loss."""
        batch = {place[3]: self.array(array) for place, array in self.ours.arrays.items()
                 if place[:3] == ("inputs", step, leaf)}
        loss, found = self.gradients(batch, self._carried(step, leaf))
        self._note_gradients("local", step, found, leaf)
        for name, gradient in found.items():
            total[name] = total[name] + gradient if name in total else gradient
        return loss.item()

    def _carried(self, step, leaf) -> dict:
        """Return the LSTM's state from the step before; zeros where an epoch starts."""
        if "lstm0/projection" not in self.values:
            return {}  # nothing is carried
        state = self.state.setdefault(leaf, {})
        if self.ours.get("inputs", step, "starts_epoch", leaf) or not state:
            streams = self.ours.get("inputs", step, "inputs", leaf).shape[1]
            sizes = zip(("lstm0/c", "lstm0/h"), self.values["lstm0/projection"].shape)
            state |= {name: self.array(np.zeros((streams, size), self.ours.precision)) for name, size in sizes}
        for name, value in state.items():
            self.trace.add("carried", step, name, self.plain(value), leaf)
        return state

    def _note_gradients(self, stage, step, gradients, leaf=None):
        for name, gradient in gradients.items():
            found = self.plain(gradient)
            if name in self.sparse and not isinstance(found, Rows):  # rows without a gradient are not in a trace
                ids = np.flatnonzero(found.any(axis=1))
                found = Rows(ids, found[ids])
            self.trace.add(stage, step, name, found, leaf)


def train(kind: type[TraceTraining], arguments) -> int:
    """Train and write the trace. arguments: name, path [, precision]. Local."""
    name, path, precision = [*arguments, "float32"][:3]
    print(*write_trace(kind(golden(name, precision)).run(), path), sep="\n")
    return 0
