"""Compute what a training costs on any number of ranks, from trainings on one: rounds, evaluations and exact bytes."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from models.svm.classes import train_classifier
from models.svm.solver import SvmOptions, capacity_of
from models.svm.storage import VectorPacking
from models.svm.traffic import OneRank


@dataclass(frozen=True)
class Foretold:
    """The cost of a training on ``ranks`` ranks. bytes: (ranks,) that each rank sends, equal to the ledgers' bytes.

    solvers: of the training on one rank from which it was computed.
    """

    ranks: int
    bytes: np.ndarray
    solvers: list

    @property
    def rounds(self) -> int:
        """The number of exchanges."""
        return sum(solver.traffic.rounds for solver in self.solvers)


def foretell(rows, labels, kernel, options: SvmOptions, sizes) -> list[Foretold]:
    """Return the cost on each number of ranks. Local. Raises ValueError: see ``models.svm.classes.check``.

    Weights do not depend on the number of ranks. Nor do rounds, if the caches hold the same number of rows. So one
    training is enough for all numbers of ranks with the same capacity. With blocks, one rank needs its own training.
    """
    packing, classes = VectorPacking(rows), np.unique(labels)
    counts = [int(np.isin(labels, pair).sum()) for pair in combinations(classes, 2)]
    trained, found = {}, []
    for size in sizes:
        alike = size > 1 and options.block > 1, *(capacity_of(options, packing, count, size) for count in counts)
        if alike not in trained:
            trained[alike] = train_classifier(rows, labels, kernel, options, OneRank(planned=size))[1]
        solvers = trained[alike]
        sent = sum(solver.traffic.bytes_by_rank(size) for solver in solvers)
        found.append(Foretold(size, sent, solvers))
    return found
