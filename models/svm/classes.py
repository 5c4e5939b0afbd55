"""Two or more classes: one machine for each pair of classes, and a vote."""

import hashlib
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral, Real

import numpy as np
from scipy.sparse import csr_array, issparse

from kernels.svm import fast
from kernels.svm.definition import KINDS, KernelFunction, power
from models.svm.blocks import BlockSolver
from models.svm.solver import ELIMINATIONS, SELECTIONS, Solver, SvmOptions
from models.svm.storage import dense, stored

TOGETHER = 16
"""The number of support vectors whose kernel rows are computed in one pass over the samples to be classified."""


@dataclass(frozen=True)
class PairMachine:
    """A trained machine of two classes. vectors: (k, width), array or CSR.  coefficients: (k,), α y.  bias: float."""

    vectors: np.ndarray
    coefficients: np.ndarray
    bias: float

    def decide(self, kernel: KernelFunction, rows):
        """Return Σ α y K - bias for each row, (n,). Values above 0 mean the second class. Local."""
        count = rows.shape[0]
        rows = csr_array(rows) if issparse(self.vectors) else dense(rows)
        store, supports = stored(rows, kernel), stored(self.vectors, kernel)
        found, values = np.zeros(count), np.empty((TOGETHER, count))
        shelf, slots = store.shelf(TOGETHER), np.arange(TOGETHER)
        for start in range(0, len(self.coefficients), TOGETHER):
            factors = self.coefficients[start:start + TOGETHER]
            for slot, vector in enumerate(supports.vectors(start + np.arange(len(factors)))):
                shelf[slot] = vector
            store.fill(shelf, slots[:len(factors)], np.zeros(TOGETHER, np.int64), count, values)
            fast.add_rows(found, values, slots[:len(factors)], factors, 0, count)
        return found - self.bias


@dataclass(frozen=True)
class SvmClassifier:
    """A classifier. classes: the sorted labels.  machines: one for each pair of classes, in the order of ``pairs``."""

    kernel: KernelFunction
    classes: np.ndarray
    machines: tuple[PairMachine, ...]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of classes, by index: (0, 1), (0, 2), …"""
        return list(combinations(range(len(self.classes)), 2))

    def sha256(self) -> str:
        """Return the hash of all machines; it is the same for dense rows and for CSR. Local."""
        digest = hashlib.sha256()
        for machine in self.machines:
            for row in range(len(machine.coefficients)):
                digest.update(dense(machine.vectors[[row]]).tobytes())
            for array in (machine.coefficients, np.array([machine.bias])):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def decide(self, rows):
        """Return each machine's decision: (n, pairs). Local. Raises ValueError if the rows have another width."""
        width = self.machines[0].vectors.shape[1]
        if rows.shape[1] != width:
            raise ValueError(f"the rows have {rows.shape[1]} features; the machine was trained on {width}")
        return np.stack([machine.decide(self.kernel, rows) for machine in self.machines], axis=1)

    def predict(self, rows):
        """Return the label of each row: the class with the most votes; in a tie the first. Local."""
        decisions = self.decide(rows)
        votes = np.zeros((len(decisions), len(self.classes)), np.int64)
        for (a, b), decision in zip(self.pairs, decisions.T):
            votes[np.arange(len(votes)), np.where(decision > 0, b, a)] += 1
        return self.classes[votes.argmax(axis=1)]


def train_classifier(rows, labels, kernel: KernelFunction, options: SvmOptions, ranks=None):
    """Return (SvmClassifier, the solvers of its machines). Collective over ``ranks``; all pass the same samples.

    rows: (n, width) float64, an array or CSR.  labels: (n,).  Raises ValueError as ``check`` does.
    """
    check(rows, labels, kernel, options)
    Chosen = BlockSolver if options.block > 1 else Solver
    classes, place = np.unique(labels, return_inverse=True)
    machines, solvers = [], []
    for a, b in combinations(range(len(classes)), 2):
        chosen = np.flatnonzero((place == a) | (place == b))
        samples = rows[chosen] if len(classes) > 2 else rows
        solver = Chosen(samples, np.where(place[chosen] == b, 1, -1), kernel, options, ranks)
        bias, supports = solver.train(), np.flatnonzero(solver.alpha)
        coefficients = solver.alpha[supports] * solver.labels[supports]
        machines.append(PairMachine(rows[chosen[supports]], coefficients, float(bias)))
        solvers.append(solver)
    return SvmClassifier(kernel, classes, tuple(machines)), solvers


def check(rows, labels, kernel: KernelFunction, options: SvmOptions):
    """Raise ValueError if samples, kernel or options are invalid. Local."""
    if rows.shape[0] != len(labels):
        raise ValueError(f"there are {rows.shape[0]} samples and {len(labels)} labels")
    values = rows.data if issparse(rows) else rows
    if not np.isfinite(values).all():
        wrong = csr_array((~np.isfinite(values), rows.indices, rows.indptr)) if issparse(rows) else ~np.isfinite(rows)
        sample, feature = (int(places[0]) for places in wrong.nonzero())
        raise ValueError(f"feature {feature} of sample {sample} is {rows[sample, feature]}: give finite numbers")
    if len(np.unique(labels)) < 2:
        raise ValueError(f"all {len(labels)} samples are of one class: give samples of two classes at least")
    for name, value in (("C", options.c), ("gamma", kernel.gamma), ("the tolerance", options.tolerance)):
        if not (isinstance(value, Real) and 0 < value < np.inf):
            raise ValueError(f"{name} is {value}: give a number above 0")
    if not (isinstance(kernel.constant, Real) and np.isfinite(kernel.constant)):
        raise ValueError(f"the constant is {kernel.constant}: give a finite number")
    for name, value in (("the cache", options.cache), ("the period", options.period), ("the block", options.block),
                        ("the degree", kernel.degree)):
        if value is not None and not (isinstance(value, Integral) and value >= 1):
            raise ValueError(f"{name} is {value}: give a whole number, 1 or more")
    for name, value, known in (("kernel", kernel.kind, KINDS), ("selection", options.selection, SELECTIONS),
                               ("elimination", options.elimination, ELIMINATIONS)):
        if value not in known:
            raise ValueError(f"the {name} {value!r} is none of {', '.join(known)}")
    _check_sums(rows, kernel, options.c)


def _check_sums(rows, kernel, c):
    """Raise ValueError if sums of weights times kernel values could overflow. The largest is K of a sample with itself.
    """
    if kernel.kind == "gaussian":
        return
    with np.errstate(over="ignore"):
        squares = rows.multiply(rows).sum(axis=1) if issparse(rows) else np.einsum("ij,ij->i", rows, rows)
        largest = squares if kernel.kind == "linear" else power(
            kernel.gamma * squares + abs(kernel.constant), int(kernel.degree))
        sums = len(largest) * c * largest
    if not np.isfinite(sums).all():
        raise ValueError(f"K of sample {int(np.isinf(sums).argmax())} with itself is too large to be added up: scale "
                         "the features, for example to mean 0 and variance 1")
