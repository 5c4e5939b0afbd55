"""Bugs of layers cut over groups, planted in copies of the reference's. Each class is one bug, nothing else."""

import numpy as np

from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.adapters.reference_mesh import ReferenceMesh


def stepping(bug: type) -> type:
    """Return the reference adapter with other groups."""
    return type(bug.__name__, (Reference,), {"mesh": bug})


@stepping
class AveragedOverWorld(ReferenceMesh):
    def summed(self, gradients):
        found = super().summed(gradients)
        return {n: g / np.float32(self.members if self.is_cut(n) else 1) for n, g in found.items()}


@stepping
class TimesMembers(ReferenceMesh):
    def summed(self, gradients):
        found = super().summed(gradients)
        return {n: g * np.float32(self.members if self.is_cut(n) else 1) for n, g in found.items()}


@stepping
class SummedOverWorld(ReferenceMesh):
    def holders(self, name):
        return slice(None)


@stepping
class GroupAlone(ReferenceMesh):
    def holders(self, name):
        return slice(self.world.rank, self.world.rank + 1) if self.is_cut(name) else slice(None)


@stepping
class WholeOverHolders(ReferenceMesh):
    def holders(self, name):
        return slice(self.member, None, self.members)


@stepping
class NormPartsTwice(ReferenceMesh):
    def squares(self, gradients):
        cut, whole = super().squares(gradients)
        return sum(self.of_group(cut)), whole


@stepping
class NormOverWorld(ReferenceMesh):
    """The parts' squares are summed over all ranks, of which G hold the same."""

    def of_all_parts(self, squares):
        return sum(self.world.allgather(squares))


@stepping
class NormWholeByMembers(ReferenceMesh):
    def squares(self, gradients):
        cut, whole = super().squares(gradients)
        return cut, sum(self.of_group(whole))


@stepping
class NormOfEveryCopy(ReferenceMesh):
    def squares(self, gradients):
        return tuple(sum(self.world.allgather(x)) for x in self.own_squares(gradients))


@stepping
class NormOfOwnPart(ReferenceMesh):
    def of_all_parts(self, squares):
        return squares


@stepping
class NormWithoutParts(ReferenceMesh):
    def of_all_parts(self, squares):
        return 0.0


@stepping
class RowsToNext(ReferenceMesh):
    def own_rows(self, grads, own):
        size, rows = len(own), list(grads)
        first = (self.member + 1) % self.members * size
        return dict(zip(own, (grads[v] for v in rows[first:first + size])))


@stepping
class RoundsInReverse(ReferenceMesh):
    """What the layers below kept lies on a stack, and gradients come as a queue has them."""

    def last(self, j, found):
        self.waiting = getattr(self, "waiting", []) + [found]
        if j == self.members - 1:
            for kept, come in zip(reversed(self.waiting), self.waiting):
                super().last(j, [(saved, grad) for (saved, _), (_, grad) in zip(kept, come)])


@stepping
class ColumnsInReverse(ReferenceMesh):
    def order(self):
        return reversed(range(self.members))


@stepping
class OwnColumnsFirst(ReferenceMesh):
    def order(self):
        return [self.member, *(k for k in range(self.members) if k != self.member)]


@stepping
class LocalDropout(ReferenceMesh):
    def drawn(self, dropout):
        return dropout[:, :dropout.shape[1] // self.members]


@stepping
class BiasByEveryMember(ReferenceMesh):
    def bias(self, layer):
        return super().bias(layer) * np.float32(self.members if layer.cut else 1)


@stepping
class PartialSums(ReferenceMesh):
    def add_partials(self, partials):
        self.of_group(None)
        return partials


@stepping
class InputGradientTimesMembers(ReferenceMesh):
    def own_rows(self, grads, own):
        return {v: g * np.float32(self.members) for v, g in super().own_rows(grads, own).items()}


@stepping
class MembersFarApart(ReferenceMesh):
    """Rank r is member r // G of group r % G."""

    def __init__(self, world, task):
        super().__init__(world, task)
        self.member, self.group = divmod(world.rank, self.groups)
        for layer in self.cut:
            for name in (layer.weight, layer.bias):
                self.values[name] = task.start[name][self.part(layer.outputs)]

    def of_group(self, item):
        return self.world.allgather(item)[self.group::self.groups]

    def holders(self, name):
        return slice(self.member * self.groups, (self.member + 1) * self.groups) if self.is_cut(name) else slice(None)
