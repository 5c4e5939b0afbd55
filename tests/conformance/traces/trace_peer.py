"""Another implementation, in plain NumPy, that begins from our local gradients: right, unless a hook makes it wrong."""

import numpy as np

from refimpl.conformance.case import Rows
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.traces.format import Trace
from refimpl.conformance.traces.golden import golden
from refimpl.plain.updating.optimizers import OPTIMIZERS


class Peer:
    """Adds microbatches from the last to the first, and updates in its own precision."""

    semantics = Semantics(name="peer", dense="sum", sparse="sum")

    def __init__(self, name="lm", precision="float32"):
        self.golden = golden(name, precision)
        self.training, self.dtype = self.golden.head["training"], np.dtype(precision).type
        self.variables = self.golden.head["variables"]

    def train(self, stages=("aggregated", "state", "parameters")) -> Trace:
        trace = Trace({"trace": self.golden.name, "edition": self.golden.head["edition"], "joined_at": "aggregate",
                       "precision": self.golden.precision, "semantics": self.semantics.to_json()})
        self.start()
        for step in range(self.training["steps"]):
            self.step = step
            total = {v["name"]: self.aggregate(v, step) for v in self.variables}
            for name, g in total.items():
                trace.add("aggregated", step, name, g)
            scales = self.scales(total)
            for v in self.variables:
                self.update(v, total[v["name"]], scales[v["name"]])
            for name in self.values:
                trace.add("parameters", step, name, self.values[name])
                for slot, array in self.state[name].items():
                    trace.add("state", step, name, array, part=slot)
        return trace.only(stages)

    def start(self):
        self.values, self.state = {}, {}
        for v in self.variables:
            self.values[v["name"]] = self.golden.get("start", None, v["name"]).copy()
            self.state[v["name"]] = {p[4]: a.copy() for p, a in self.golden.arrays.items()
                                     if p[0] == "start" and p[3] == v["name"] and p[4] != "value"}

    def locals(self, v, step):
        found = [self.golden.get("local", step, v["name"], m) for m in range(self.training["microbatches"])]
        return [g for g in found if g is not None]

    def aggregate(self, v, step):
        parts = self.locals(v, step)
        if not v["sparse"]:
            return sum(parts[::-1])
        ids = np.concatenate([p.ids for p in parts[::-1]])
        unique, place = np.unique(ids, return_inverse=True)
        rows = np.zeros((len(unique), v["shape"][1]), self.dtype)
        np.add.at(rows, place, np.concatenate([p.rows for p in parts[::-1]]))
        return Rows(unique, rows)

    def scales(self, total):
        if self.training["clip"] is None:
            return dict.fromkeys(total, self.dtype(1))
        counted = [total[v["name"]] for v in self.variables if v["name"] in total and not v["statistic"]]
        squares = sum(((g.rows if isinstance(g, Rows) else g) ** 2).sum() for g in counted)
        return dict.fromkeys(total, self.dtype(min(1.0, self.training["clip"] / np.sqrt(squares))))

    def update(self, v, g, scale):
        p, state = self.values[v["name"]], self.state[v["name"]]
        if v["statistic"]:
            p += self.dtype(self.training["statistic_rate"]) * (g - p)
            return
        at, g = (g.ids, g.rows) if v["sparse"] else (..., g)
        OPTIMIZERS[self.training["optimizer"]](**self.training["options"]).apply(
            p, state, at, g * scale, self.training["rate"], self.step + 1)
