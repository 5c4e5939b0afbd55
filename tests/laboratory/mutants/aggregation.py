"""Bugs of aggregation, planted in copies of the reference adapter. Each class is one bug, nothing else."""

import numpy as np

from refimpl.conformance.adapters.reference import Reference
from refimpl.notebook.suspects import IdsAsFloats


class SparseNotAveraged(Reference):
    def counts(self, parts):
        return dict.fromkeys(super().counts(parts), 1)


class SumInOneBackend(Reference):
    """The code for float64 forgets to divide."""

    def mean(self, arrays, divisor=None):
        return super().mean(arrays, 1 if arrays[0].dtype == np.float64 else divisor)


class AverageTwice(Reference):
    """The code for float64 divides again."""

    def mean(self, arrays, divisor=None):
        again = len(arrays) if arrays[0].dtype == np.float64 else 1
        return super().mean(arrays, divisor) / arrays[0].dtype.type(again)


class GroupDividedByWorld(Reference):
    def mean(self, arrays, divisor=None):
        return super().mean(arrays, self.world.size)


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


class AddedByPosition(Reference):
    def merge(self, parts):
        if len({len(ids) for ids, _ in parts}) == 1:
            parts = [(parts[0][0], rows) for _, rows in parts]
        return super().merge(parts)


class SparseNotReduced(Reference):
    def aggregate_rows(self, gradients, shapes):
        self.world.allgather(None)
        return gradients


class EmptyCrashes(Reference):
    def aggregate_rows(self, gradients, shapes):
        for ids, _ in gradients.values():
            ids.max()  # of nothing
        return super().aggregate_rows(gradients, shapes)


class IdsAsInt32(IdsAsFloats):
    dtype = "int32"


class UseLost(Reference):
    def joined(self, parts):
        return parts[-1]


class UseTwice(Reference):
    def joined(self, parts):
        return super().joined([*parts, parts[0]])


class FusionInElements(Reference):
    def buckets(self, arrays):
        return super().buckets({n: np.empty(a.size, np.uint8) for n, a in arrays.items()})


class FusionOff(Reference):
    def buckets(self, arrays):
        return [[name] for name in arrays]


class MatchedByPosition(Reference):
    """Each rank's k-th gradient is added to the others' k-th."""

    def aggregate_dense(self, arrays):
        mine = {str(k): a for k, a in enumerate(arrays.values())}
        if len({a.shape for a in mine.values()}) > 1:
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


class NotCopiedBack(Reference):
    def aggregate_dense(self, arrays):
        super().aggregate_dense(arrays)  # into a staged copy
        return arrays


class RootIgnored(Reference):
    def broadcast(self, arrays, root):
        return super().broadcast(arrays, 0)


class RankTwice(Reference):
    """Rank 0 is counted twice and the last one never."""

    def fold(self, values, add):
        twice = [*values[:-1], values[0]] if len(values) == self.world.size else values
        return super().fold(twice, add)
