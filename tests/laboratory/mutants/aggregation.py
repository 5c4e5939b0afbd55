"""Bugs of aggregation, planted in copies of the reference adapter. Each is one bug, nothing else."""

import numpy as np

from mutants.mutant import Mutant, planted, undeclared
from refimpl.conformance.adapters.reference import Reference
from refimpl.notebook.exercises.numbers import DividedByPushes, IdsAsFloats

SparseNotAveraged = planted(divisors=lambda self, right, parts, ids: np.ones(len(ids)))


class HalfOverflow(Reference):
    def mean(self, arrays, divisor=None):
        if arrays[0].dtype != np.float16:
            return super().mean(arrays, divisor)
        with np.errstate(over="ignore"):
            return sum(arrays[1:], arrays[0]) / np.float16(len(arrays))


class IdsOfAnother(Reference):
    """Ids and rows travel apart, and the ids come back in another order."""

    def aggregate_rows(self, gradients, shapes):
        names = sorted(gradients)
        ids = {n: gradients[names[i - 1]][0] for i, n in enumerate(names)}
        mixed = {n: (ids[n][:len(rows)], rows[:len(ids[n])]) for n, (_, rows) in gradients.items()}
        return super().aggregate_rows(mixed, shapes)


class IdsAsInt32(IdsAsFloats):
    dtype = "int32"


class MatchedByPosition(Reference):
    """Each rank's k-th gradient is added to the others' k-th."""

    def aggregate_dense(self, arrays):
        mine = {str(k): a for k, a in enumerate(arrays.values())}
        if len({a.shape for a in mine.values() if a is not None}) > 1:
            return super().aggregate_dense(arrays)
        return dict(zip(arrays, super().aggregate_dense(mine).values()))


class KindsMixed(Reference):
    """Dense and row collectives have one channel: the k-th of each rank meet, whatever they are."""

    def aggregate_all(self, gradients, shapes):
        everyone = [list(g.values()) for g in self.world.allgather(gradients)]
        result = {}
        for k, (name, own) in enumerate(gradients.items()):
            met = [part[k][1] if isinstance(part[k], tuple) else part[k] for part in everyone]
            if isinstance(own, tuple):
                result[name] = self.own(self.merge([(own[0], rows) for rows in met]))
            else:
                result[name] = self.mean(met)
        return result


class BufferReused(Reference):
    """The last rank packs its next array into the buffer while the one before is still being sent."""

    def aggregate_dense(self, arrays):
        if self.world.rank == self.world.size - 1:
            names = list(arrays)
            late = {n: arrays[later] for n, later in zip(names, names[1:]) if arrays[n].shape == arrays[later].shape}
            arrays = {**arrays, **late}
        return super().aggregate_dense(arrays)


RankTwice = planted(fold=lambda self, right, values, add: right(
    [*values[:-1], values[0]] if len(values) == self.world.size else values, add))
"""Rank 0 is counted twice and the last one never."""


def _wide(arrays) -> bool:
    return arrays[0].dtype == np.float64


AGGREGATION = (
    Mutant(1, "sparse gradients are never averaged", ("sparse=sum",), SparseNotAveraged),
    Mutant(2, "rows are divided by their push count", ("sparse=per-row-count",), DividedByPushes),
    Mutant(3, "a sum reported as average for one dtype", ("dense=sum",), planted(
        mean=lambda self, right, arrays, divisor=None: right(arrays, 1 if _wide(arrays) else divisor))),
    Mutant(3, "an average divided once more for one dtype", ("divided-again",), planted(
        mean=lambda self, right, arrays, divisor=None: right(arrays, divisor) / arrays[0].dtype.type(
            len(arrays) if _wide(arrays) else 1))),
    Mutant(5, "a subgroup's sum divided by the world's size", ("group-divided-by-world",), planted(
        mean=lambda self, right, arrays, divisor=None: right(arrays, self.world.size))),
    Mutant(7, "a float16 sum overflows before the division", ("half-overflow",), HalfOverflow),
    Mutant(10, "rows of one variable with the ids of another", ("ids-of-another",), IdsOfAnother),
    Mutant(11, "values added position by position", ("added-by-position",), planted(merge=lambda self, right, parts: right(
        [(parts[0][0], rows) for _, rows in parts] if len({len(ids) for ids, _ in parts}) == 1 else parts))),
    Mutant(13, "duplicate ids overwrite", ("duplicates=last",), undeclared(duplicates="last")),
    Mutant(14, "a sparse reduction does nothing", ("not-reduced",), planted(
        aggregate_rows=lambda self, right, gradients, shapes: (self.world.allgather(None), gradients)[1])),
    Mutant(15, "an empty row gradient crashes", ("empty-row-gradient",), planted(
        aggregate_rows=lambda self, right, gradients, shapes: (  # the largest of nothing
            [ids.max() for ids, _ in gradients.values()], right(gradients, shapes))[1])),
    Mutant(16, "ids pass through float32", ("ids-float32",), IdsAsFloats),
    Mutant(16, "ids pass through int32", ("ids-int32",), IdsAsInt32),
    Mutant(17, "one of two uses is lost", ("use-miscounted",), planted(joined=lambda self, right, parts: parts[-1])),
    Mutant(17, "one of two uses is counted twice", ("use-miscounted",), planted(
        joined=lambda self, right, parts: right([*parts, parts[0]]))),
    Mutant(20, "fusion size counted in elements", ("fusion-in-elements",), planted(
        buckets=lambda self, right, arrays: right({n: np.empty(a.size, np.uint8) for n, a in arrays.items()}))),
    Mutant(20, "fusion silently off", ("fusion-off",), planted(
        buckets=lambda self, right, arrays: [[name] for name in arrays])),
    Mutant(21, "unlike variables are summed", ("matched-by-position",), MatchedByPosition),
    # of bags there is one variable: there rows meet rows, and are added by position
    Mutant(22, "collectives of two kinds meet", ("kinds-mixed", "added-by-position"), KindsMixed),
    Mutant(23, "a buffer reused before its transfer ended", ("buffer-reused",), BufferReused),
    Mutant(24, "a staged copy not copied back", ("not-reduced",), planted(
        aggregate_dense=lambda self, right, arrays: (right(arrays), arrays)[1])),
    Mutant(25, "the root is ignored", ("root-ignored",), planted(
        broadcast=lambda self, right, arrays, root: right(arrays, 0))),
)
