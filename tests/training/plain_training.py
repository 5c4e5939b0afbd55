"""What one device would compute, written down plainly: no ranks, no roads, no kernels but their definitions.

The oracle of the trainer: every number of it is compared bit for bit.
"""

import math
from dataclasses import replace

import numpy as np

from kernels import RowGradient, to_numpy
from kernels.random import key_of
from kernels.reductions import definition as reductions
from kernels.update import OPTIMIZERS, definition, initial_state
from kernels.update.rates import rate_of
from models import STATISTIC_RATE


def tree_sum(values, add):
    """The sum by the tree's recursive definition: cut after the largest power of two of leaves that leaves a rest."""
    if len(values) == 1:
        return values[0]
    half = 1 << (len(values) - 1).bit_length() - 1
    return add(tree_sum(values[:half], add), tree_sum(values[half:], add))


def add_gradients(left, right):
    """Add two microbatches' gradients: arrays add up; of row gradients the rows that both have."""
    total = {}
    for name, a in left.items():
        b = right[name]
        if isinstance(a, dict):
            total[name] = {i: a[i] + b[i] if i in a and i in b else a.get(i, b.get(i)) for i in sorted({*a, *b})}
        else:
            total[name] = a + b
    return total


class PlainTraining:
    """``values`` and ``state`` after ``step`` steps; ``loss``, ``norm`` and ``scale`` of the last one."""

    def __init__(self, model, data, options, xp=np):
        self.model, self.data, self.options, self.step = model, data, options, 0
        self.xp = xp  # what the model computes with; all that follows is computed with NumPy
        self.values = {v.name: np.array(v.initial_value(options.seed)) for v in model.variables}
        self.state = {v.name: {} if v.statistic else initial_state(options.optimizer, self.values[v.name])
                      for v in model.variables}

    def train_step(self):
        if self.data.starts_epoch(self.step):
            self.carried = [{} for _ in range(self.data.microbatches)]
        losses, leaves = zip(*map(self.microbatch, range(self.data.microbatches)))
        self.apply(math.fsum(losses), tree_sum(leaves, add_gradients))
        self.step += 1

    def microbatch(self, v):
        batch = self.data.microbatch(self.step, v)
        if batch is None:
            return 0.0, {x.name: {} if x.sparse else np.zeros(x.shape, x.dtype) for x in self.model.variables}
        batch = replace(batch, key=key_of(self.options.seed, "microbatch", self.step, v), state=self.carried[v])
        dense = {x.name: self.xp.array(self.values[x.name]) for x in self.model.variables if not x.sparse}
        rows = {name: self.xp.array(self.values[name][ids]) for name, ids in self.model.rows_needed(batch).items()}
        loss, gradients = self.model.loss_and_gradients(dense, rows, batch)
        return float(loss), {name: dict(zip(g.ids.tolist(), to_numpy(g.rows))) if isinstance(g, RowGradient)
                             else np.array(to_numpy(g) if np.ndim(g) else float(g), g.dtype)
                             for name, g in gradients.items()}

    def apply(self, loss, total):
        options, squares = self.options, []
        for v in self.model.variables:
            g = total[v.name]
            if v.clipped and not v.statistic:
                rows = list(g.values()) if v.sparse else np.atleast_1d(g) if g.ndim else [g]
                squares += [float(reductions.sum_of_squares_per_row(np.reshape(row, (1, -1)))[0])
                            for row in rows if np.size(row)]
        self.loss, self.norm = loss, math.sqrt(math.fsum(squares))
        self.scale = min(1.0, options.clip_norm / self.norm) if options.clip_norm and self.norm else 1.0
        rate = rate_of(self.step, base=options.learning_rate, rate=options.rate, warmup=options.warmup,
                       steps=options.rate_steps)
        for v in self.model.variables:
            self.update(v, total[v.name], rate)

    def update(self, v, g, rate):
        options, value, optimizer = self.options, self.values[v.name], OPTIMIZERS[self.options.optimizer]
        if v.statistic:
            value += np.float32(STATISTIC_RATE) * (g - value)
            return
        settings = {**optimizer.options, **options.optimizer_options, "scale": self.scale if v.clipped else 1.0,
                    "decay": options.weight_decay if v.decays else 0.0}
        if options.optimizer == "adam":
            settings["step"] = self.step + 1
        slots = list(self.state[v.name].values())
        if not v.sparse:
            optimizer.define(value, *slots, g, rate, **settings)
        elif g:
            settings["scale"] *= 1 if options.average_sparse else self.data.microbatches
            definition.update_rows(optimizer.define, value, slots, np.array(list(g)), np.stack(list(g.values())), rate,
                                   **settings)
