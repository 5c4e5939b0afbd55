"""An owner without barriers: it answers pulls and applies pushes in some order, and that order is its record.

    record    a worker's number for each pull answered and each push received. A worker pulls and pushes by turns, and
              pulls a last time to hear that the training is over: so the numbers alone say what each entry was

The parameters are a function of the records: whoever gives the same owners the same entries again gets the same bits
(``refimpl.plain.replay``). Row r of a sparse variable lies on owner r mod N; the i-th variable, if dense, on owner
i mod N. The staleness of a row is how often it was updated since the worker pulled it; likewise of a dense variable.

An update takes the n pushes that the consistency names, in worker order. Each is corrected; they are added up in tree
order (``refimpl.plain.tree``; push i is leaf i), and go to the optimizer times N / n, rounded to the dtype. A push is a
part of the mean over N workers: so that is the mean over these n, and of all N the synchronous gradient, to the bit.
Each decision is a method. In float64 this is what the conformance suite expects of an owner; a known mistake is the
class with one method replaced (``refimpl.conformance.space.owner``).
"""

import hashlib
from collections import Counter
from typing import NamedTuple

import numpy as np

from refimpl.plain.consistencies import consistency
from refimpl.plain.corrections import CORRECTIONS, check
from refimpl.plain.rows import merge_rows
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
        from refimpl.plain.clipping import Optimizer  # here, since ``begin`` is for those without kernels, too
        if options.clip_norm is not None or not options.average_sparse:
            raise ValueError("without barriers nobody knows all gradients: set clip_norm None, average_sparse True")
        check(correction, options.optimizer)
        self.number, self.owners, self.rule = number, owners, rule
        kept = [v for i, v in enumerate(variables) if v.sparse or i % owners == number]
        values = {v.name: v.initial_value(options.seed)[slice(number, None, owners) if v.sparse else ...] for v in kept}
        self.begin(kept, values, Optimizer(kept, values, options), workers, consistency(rule, workers, steps),
                   CORRECTIONS[correction](workers))

    def begin(self, variables, values, optimizer, workers, consistency, correction):
        """Keep ``values``, name -> array, of which ``optimizer`` does the updates, before anyone has come."""
        self.variables, self.values, self.optimizer = variables, values, optimizer
        self.consistency, self.correction = consistency, correction
        self.updates = {v.name: np.zeros(values[v.name].shape[:v.sparse], np.int64) for v in variables}
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
            self.pulled[worker][v.name] = at, self.remembered(v, at), np.array(self.updates[v.name][at])
        values = {name: np.array(then) for name, (_, then, _) in self.pulled[worker].items()}
        return self.consistency.over(self, worker), values

    def remembered(self, v, at):
        """Return what a later push will be compared with: a copy."""
        return np.array(self.values[v.name][at])

    def push(self, worker, gradients):
        """Take a worker's gradients, of what it pulled last; update what they bring about."""
        self.record.append(worker)
        push = Push(worker, self.clocks[worker], self.version_of(worker), gradients, self.pulled.pop(worker))
        self.clocks[worker] += 1
        for pushes in self.consistency.arrived(self, push):
            self.update(pushes)

    def version_of(self, worker):
        """Return the version of the values that a worker's push was computed with: the one that it pulled."""
        return self.seen[worker]

    def update(self, pushes):
        """Do one step of the optimizer with the mean of these pushes."""
        sums, times = {}, self.times(pushes)
        for v in self.variables:
            leaves = {(i, i + 1): self.corrected(v, push) for i, push in enumerate(pushes)}
            total = add_up(0, len(pushes), leaves, merge_rows if v.sparse else np.add)
            at, total = (total.ids, total.rows) if v.sparse else (..., total)
            sums[v.name] = at, total * self.values[v.name].dtype.type(times)
            self.updates[v.name][at] += 1
        self.optimizer.update(self.version, sums)
        self.version += 1

    def times(self, pushes):
        """Return what makes a sum of pushes their mean: each is a part of the mean over all workers."""
        return len(self.clocks) / len(pushes)

    def corrected(self, v, push):
        """Return a push's gradient of v, corrected for its staleness. ids of a row gradient: indices here."""
        g = push.gradients[v.name]
        at, rows = (g.ids // self.owners, g.rows) if v.sparse else (..., g)
        then, updates = self.old(v, push, at)
        staleness = self.stale(v, push, at, updates)
        self.staleness.update(staleness.ravel().tolist())
        if not v.statistic:
            rows = self.correct(v, at, rows, staleness.reshape(-1, 1) if v.sparse else staleness, then)
        return type(g)(at, rows) if v.sparse else rows

    def old(self, v, push, at):
        """Return (values, updates) of what a push touches, as its worker pulled them. Rows must have been pulled."""
        pulled, then, updates = push.pulled[v.name]
        if v.sparse and not np.isin(at, pulled).all():
            raise ValueError(f"worker {push.worker} pushes rows of {v.name} that it has not pulled")
        place = np.searchsorted(pulled, at) if v.sparse else ...
        return then[place], updates[place]

    def stale(self, v, push, at, updates):
        """Return how often each row, or the dense variable, was updated since the worker pulled it."""
        return self.updates[v.name][at] - updates

    def correct(self, v, at, g, staleness, then):
        """Return the gradient of values[at] that is applied."""
        return self.correction(v.name, self.values[v.name], at, g, staleness, then)


def sha256(variables, parts):
    """Return the hash of all parameters, as a training prints it. parts: the ``values`` of all owners, in order."""
    digest = hashlib.sha256()
    for i, v in sorted(enumerate(variables), key=lambda pair: pair[1].name):
        whole = np.empty(v.shape, v.dtype) if v.sparse else parts[i % len(parts)][v.name]
        for owner, values in enumerate(parts if v.sparse else ()):
            whole[owner::len(parts)] = values[v.name]
        digest.update(f"parameter/{v.name} {whole.dtype.str} {whole.shape}\n".encode() + whole.tobytes())
    return digest.hexdigest()
