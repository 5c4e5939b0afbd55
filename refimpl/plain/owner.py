"""An owner without barriers: it answers pulls and applies pushes in some order, and that order is its record.

    record    a worker's number for each pull answered and each push received. A worker pulls and pushes by turns, and
              pulls a last time to hear that the training is over: so the numbers alone say what each entry was

The parameters are a function of the records: whoever gives the same owners the same entries again gets the same bits
(``refimpl.plain.replay``). Row r of a sparse variable lies on owner r mod N; the i-th variable, if dense, on owner
i mod N. The staleness of a row is how often it was updated since the worker pulled it; likewise of a dense variable.

An update takes the n pushes that the consistency names, in worker order. Each is corrected; they are added up in tree
order (``refimpl.plain.tree``; push i is leaf i), and go to the optimizer times N / n, rounded to the dtype. A push is a
part of the mean over N workers: so that is the mean over these n, and of all N the synchronous gradient, to the bit.
"""

import hashlib
from collections import Counter
from typing import NamedTuple

import numpy as np

from kernels import RowGradient
from kernels.rows.definition import merge_rows
from refimpl.plain.clipping import Optimizer
from refimpl.plain.consistencies import consistency
from refimpl.plain.corrections import CORRECTIONS, check
from refimpl.plain.tree import add_up


class Push(NamedTuple):
    """A worker's gradients {name: array or RowGradient} of its step ``clock``; what it had pulled, at which version.

    pulled: name -> (indices of what was pulled, values then, how often each had been updated).
    """

    worker: int
    clock: int
    version: int
    gradients: dict
    pulled: dict


class Owner:
    """Owner ``number`` of ``owners``. options: as ``hybrid.Options``, without clipping.

    clocks, version, seen: see ``consistencies``.  pulled: of each worker that is to push next, what ``Push.pulled`` is.
    updates: of each row, or dense variable.  staleness: τ -> how many rows and dense variables were pushed with it.
    """

    def __init__(self, number, owners, workers, steps, variables, options, rule="asynchronous", correction="none"):
        if options.clip_norm is not None or not options.average_sparse:
            raise ValueError("without barriers nobody knows all gradients: set clip_norm None, average_sparse True")
        check(correction, options.optimizer)
        self.number, self.owners, self.rule = number, owners, rule
        self.consistency, self.correction = consistency(rule, workers, steps), CORRECTIONS[correction](workers)
        self.variables = [v for i, v in enumerate(variables) if v.sparse or i % owners == number]
        own = slice(number, None, owners)
        self.values = {v.name: v.initial_value(options.seed)[own if v.sparse else ...] for v in self.variables}
        self.optimizer = Optimizer(self.variables, self.values, options)
        self.updates = {v.name: np.zeros(self.values[v.name].shape[:v.sparse], np.int64) for v in self.variables}
        self.version, self.clocks, self.seen, self.pulled = 0, [0] * workers, [-1] * workers, {}
        self.record, self.staleness = [], Counter()

    def answers(self, worker):
        """Return whether this worker's pull may be answered now."""
        return self.consistency.over(self, worker) or self.consistency.answers(self, worker)

    def pull(self, worker, rows):
        """Return (whether the training is over, {name: values}). rows: name -> row numbers, of each sparse variable."""
        self.record.append(worker)
        self.seen[worker], self.pulled[worker] = self.version, {}
        for v in self.variables:
            at = rows[v.name] // self.owners if v.sparse else ...
            self.pulled[worker][v.name] = at, np.array(self.values[v.name][at]), np.array(self.updates[v.name][at])
        return self.consistency.over(self, worker), {name: then for name, (_, then, _) in self.pulled[worker].items()}

    def push(self, worker, gradients):
        """Take a worker's gradients, of what it pulled last; update what they bring about."""
        self.record.append(worker)
        push = Push(worker, self.clocks[worker], self.seen[worker], gradients, self.pulled.pop(worker))
        self.clocks[worker] += 1
        for pushes in self.consistency.arrived(self, push):
            self.update(pushes)

    def update(self, pushes):
        """Do one step of the optimizer with the mean of these pushes."""
        sums, mean = {}, len(self.clocks) / len(pushes)
        for v in self.variables:
            leaves = {(i, i + 1): self.corrected(v, push) for i, push in enumerate(pushes)}
            total = add_up(0, len(pushes), leaves, merge_rows if v.sparse else np.add)
            at, total = (total.ids, total.rows) if v.sparse else (..., total)
            sums[v.name] = at, total * self.values[v.name].dtype.type(mean)
            self.updates[v.name][at] += 1
        self.optimizer.update(self.version, sums)
        self.version += 1

    def corrected(self, v, push):
        """Return a push's gradient of v, corrected for its staleness. ids of a row gradient: indices here."""
        (at, then, updates), g = push.pulled[v.name], push.gradients[v.name]
        if v.sparse:
            pulled, at, g = at, g.ids // self.owners, g.rows
            if not np.isin(at, pulled).all():
                raise ValueError(f"worker {push.worker} pushes rows of {v.name} that it has not pulled")
            then, updates = (array[np.searchsorted(pulled, at)] for array in (then, updates))
        staleness = self.updates[v.name][at] - updates
        self.staleness.update(staleness.ravel().tolist())
        if not v.statistic:
            staleness = staleness.reshape(-1, 1) if v.sparse else staleness
            g = self.correction(v.name, self.values[v.name], at, g, staleness, then)
        return RowGradient(at, g) if v.sparse else g


def sha256(variables, parts):
    """Return the hash of all parameters, as a training prints it. parts: the ``values`` of all owners, in order."""
    digest = hashlib.sha256()
    for i, v in sorted(enumerate(variables), key=lambda pair: pair[1].name):
        whole = np.empty(v.shape, v.dtype) if v.sparse else parts[i % len(parts)][v.name]
        for owner, values in enumerate(parts if v.sparse else ()):
            whole[owner::len(parts)] = values[v.name]
        digest.update(f"parameter/{v.name} {whole.dtype.str} {whole.shape}\n".encode() + whole.tobytes())
    return digest.hexdigest()
