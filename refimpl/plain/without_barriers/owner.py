"""An owner without barriers: it answers pulls, applies pushes, and writes an event log of the order of both.

    record    the event log: a worker's number for each pull answered and for each push received. A worker pulls and
              pushes in turns, so its first, third, fifth, … entries are the pulls. It pulls once more at the end

The parameters are a function of the event logs: the same entries give the same bits again (``replay``). Each of N ranks
is an owner and a worker. Row r of a sparse variable lies on owner r mod N. Variable number i of the model, if it is
dense, lies on owner i mod N. The staleness of a row, or of a dense variable, is the number of its updates since the
worker pulled it.

The consistency says which n pushes an update applies. Their gradients are corrected and added up by a tree whose leaf i
is push i. The optimizer gets the sum times N / n (see ``times``). With n = N this is the synchronous gradient, to the
bit. ``stale`` corrects one gradient. The conformance suite replaces one method of this class for each known mistake.
"""

import hashlib
from collections import Counter

import numpy as np

from refimpl.plain.adding.rows import merge_rows
from refimpl.plain.adding.tree import add_up
from refimpl.plain.without_barriers.consistencies import consistency
from refimpl.plain.without_barriers.corrections import CORRECTIONS, check
from refimpl.plain.without_barriers.stale import Push, Stale


class Owner(Stale):
    """Owner ``number`` of ``owners``. options: as ``hybrid.Options``, without clipping.

    clocks, version, seen: see ``consistencies``.  pulled: worker -> ``Push.pulled``, until the worker pushes.
    updates: {name: how often each row, or the dense variable, was updated}.
    staleness: {τ: how many of the pushed rows and dense variables had this staleness}.
    """

    def __init__(self, number, owners, workers, steps, variables, options, rule="asynchronous", correction="none"):
        from refimpl.plain.updating.clipping import Optimizer  # here, as the conformance suite needs no kernels
        if options.clip_norm is not None or not options.average_sparse:
            raise ValueError("without barriers no rank knows all gradients: set clip_norm None, average_sparse True")
        check(correction, options.optimizer)
        self.number, self.owners, self.rule = number, owners, rule
        kept = [v for i, v in enumerate(variables) if v.sparse or i % owners == number]
        values = {v.name: v.initial_value(options.seed)[slice(number, None, owners) if v.sparse else ...] for v in kept}
        self.begin(kept, values, Optimizer(kept, values, options), workers, consistency(rule, workers, steps),
                   CORRECTIONS[correction](workers))

    def begin(self, variables, values, optimizer, workers, consistency, correction):
        """Set the state before the first pull. values: {name: array}, which ``optimizer`` updates in place."""
        self.variables, self.values, self.optimizer = variables, values, optimizer
        self.consistency, self.correction = consistency, correction
        self.updates = {v.name: np.zeros(len(values[v.name]) if v.sparse else (), np.int64) for v in variables}
        self.version, self.clocks, self.seen, self.pulled = 0, [0] * workers, [-1] * workers, {}
        self.record, self.staleness = [], Counter()

    def answers(self, worker):
        """Return whether this worker's pull may be answered now."""
        return self.consistency.over(self, worker) or self.consistency.answers(self, worker)

    def pull(self, worker, rows):
        """Return (whether the training is over, {name: values}). rows: {name: row numbers} of the sparse variables."""
        self.record.append(worker)
        self.seen[worker], self.pulled[worker] = self.version, {}
        for v in self.variables:
            at = rows[v.name] // self.owners if v.sparse else ...
            self.pulled[worker][v.name] = at, self.remembered(v, at), np.array(self.updates[v.name][at])
        values = {name: np.array(then) for name, (_, then, _) in self.pulled[worker].items()}
        return self.consistency.over(self, worker), values

    def remembered(self, v, at):
        """Return a copy of the values that a worker pulls. The correction of its push compares them with later ones."""
        return np.array(self.values[v.name][at])

    def push(self, worker, gradients):
        """Take the gradients that a worker computed from its last pull; do the updates that follow from them."""
        self.record.append(worker)
        push = Push(worker, self.clocks[worker], self.version_of(worker), gradients, self.pulled.pop(worker))
        self.clocks[worker] += 1
        for pushes in self.consistency.arrived(self, push):
            self.update(pushes)

    def version_of(self, worker):
        """Return the version with which a worker's push was computed: the one that it pulled."""
        return self.seen[worker]

    def update(self, pushes):
        """Do one step of the optimizer with the mean of these pushes, which are in worker order."""
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
        """Return N / n. Each gradient is already divided by the examples of N workers, but only n are added up."""
        return len(self.clocks) / len(pushes)


def sha256(variables, parts):
    """Return the hash of all parameters, as a training prints it. parts: the ``values`` of all owners, by number."""
    digest = hashlib.sha256()
    for i, v in sorted(enumerate(variables), key=lambda pair: pair[1].name):
        whole = np.empty(v.shape, v.dtype) if v.sparse else parts[i % len(parts)][v.name]
        for owner, values in enumerate(parts if v.sparse else ()):
            whole[owner::len(parts)] = values[v.name]
        digest.update(f"parameter/{v.name} {whole.dtype.str} {whole.shape}\n".encode() + whole.tobytes())
    return digest.hexdigest()
