"""What a training costs on any number of ranks, from trainings on one rank: rounds, evaluations and exact bytes."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from models.svm.classes import train_classifier
from models.svm.solver import SvmOptions, capacity_of
from models.svm.storage import VectorPacking
from models.svm.traffic import OneRank


@dataclass(frozen=True)
class Foretold:
    """A training on ``ranks`` ranks. bytes: that each rank sends, (ranks,), as the ledgers will say.

    solvers: of the training on one rank that it was computed from.
    """

    ranks: int
    bytes: np.ndarray
    solvers: list

    @property
    def rounds(self) -> int:
        """The number of exchanges."""
        return sum(solver.traffic.rounds for solver in self.solvers)


def foretell(rows, labels, kernel, options: SvmOptions, sizes) -> list[Foretold]:
    """Return a training on each number of ranks. Local. Raises ValueError as ``models.svm.classes.check`` does.

    Weights do not depend on the number of ranks, and neither do rounds, if the caches hold as many rows. So one
    training is run for all numbers of ranks with the same capacity; one more for one rank if there are blocks.
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
