"""Wrong meshes: the plain mesh with one method replaced. The docstring of a class says what is wrong.

shift: the distance in members or rounds; 0: in reverse; None, of columns: a member's own columns come first.
of: groups, members, or both: a case shows the mistake only if it has several of them.
"""

import numpy as np

from refimpl.conformance.bounds import Expected
from refimpl.conformance.cases.mesh import layers_of, named, task_of, weights_of
from refimpl.conformance.space.deviation import SimulatedClass
from refimpl.conformance.worlds import LeftAlone, run_ranks
from refimpl.plain.model_parallel.mesh import Mesh


class PartsDivided(Mesh):
    """The gradient of a part is 1/K of the expected one: it is averaged over all N ranks, not over the G ranks that
    hold the part, or it is divided by the K members of a group.
    """

    def summed(self, gradients):
        return {n: g / (self.members if self.is_cut(n) else 1) for n, g in super().summed(gradients).items()}


class PartsMultiplied(Mesh):
    """The gradient of a part is K times ours: the sum over the rows of K members is taken for that of one member."""

    def summed(self, gradients):
        return {n: g * (self.members if self.is_cut(n) else 1) for n, g in super().summed(gradients).items()}


class PartsOfAllMembers(Mesh):
    """The gradients of a layer's parts are added to each other: summed over all N ranks, not over the G that hold the
    same part.
    """

    def holds(self, name, rank):
        return True


class PartsNotSummed(Mesh):
    """The gradient of a part is that of its own group: it is not summed over the ranks that hold the part."""

    of = "groups"

    def holds(self, name, rank):
        return rank == self.world.rank if self.is_cut(name) else True


class WholeOverHolders(Mesh):
    """The gradient of a whole layer is summed only over ranks of the same member number, not over all N."""

    def holds(self, name, rank):
        return self.place(rank)[1] == self.member


class NormPartsKTimes(Mesh):
    """The norm counts each part K times: each member adds the parts of the whole group."""

    def squares(self, parts, whole):
        return self.members * sum(self.of_group(parts)), whole


class NormPartsGTimes(Mesh):
    """The norm counts each part G times: once for every rank that holds it."""

    of = "groups"

    def squares(self, parts, whole):
        return sum(self.world.allgather(parts)), whole


class NormWholeKTimes(Mesh):
    """The norm counts whole layers K times: once for every member of a group."""

    def squares(self, parts, whole):
        return sum(self.of_group(parts)), self.members * whole


class NormEveryCopy(Mesh):
    """The norm counts every copy: the squares of all N ranks are added."""

    of = "groups"

    def squares(self, parts, whole):
        return sum(self.world.allgather(parts)), sum(self.world.allgather(whole))


class NormOfOwnPart(Mesh):
    """The norm leaves parts out: each member takes only its own part, so the members clip differently."""

    def squares(self, parts, whole):
        return parts, whole


class NormWithoutParts(Mesh):
    """The norm leaves out the layers that are cut."""

    def squares(self, parts, whole):
        return 0.0, whole


class InputGradientKTimes(Mesh):
    """The gradient that the first cut layer gives to the layer below it is K times ours: every member adds the partial
    sums, and then they are added once more.
    """

    def own_rows(self, grads, own):
        return {v: g * self.members for v, g in super().own_rows(grads, own).items()}


class MembersFarApart(Mesh):
    """The members of a group are not neighbours: rank r holds the part of member r // G, not r % K."""

    of = "both"

    def place(self, rank):
        return divmod(rank, self.groups)[::-1]


class RowsToWrongOwner(Mesh):
    """Gradients of rows come back to the wrong member."""

    shift = 1

    def own_rows(self, grads, own):
        rows, first = list(grads), turned(range(self.members), self.shift)[self.member] * len(own)
        return dict(zip(own, (grads[v] for v in rows[first:first + len(own)])))

    def last(self, j, found):
        super().last(j, alike(found))


class RoundsOutOfOrder(Mesh):
    """Gradients of rows come back in the wrong round: they are combined with the inputs of other rows."""

    shift, waiting = 1, ()

    def last(self, j, found):
        self.waiting = [*self.waiting, found]
        for kept, k in zip(self.waiting, turned(range(self.members), self.shift) if j == self.members - 1 else ()):
            super().last(j, alike([(saved, grad) for (saved, _), (_, grad) in zip(kept, self.waiting[k])]))


class ColumnsOutOfOrder(Mesh):
    """Columns are not gathered in the order of the members."""

    shift = 1

    def order(self, layer):
        own_first = [self.member, *(k for k in range(self.members) if k != self.member)]
        return own_first if self.shift is None else turned(range(self.members), self.shift)


class DropoutByLocalColumn(Mesh):
    """Dropout is drawn by local column: each member drops the same columns as member 0."""

    def drawn(self, layer, dropout):
        return dropout[:, :super().drawn(layer, dropout).shape[1]]


class BiasByEveryMember(Mesh):
    """The bias is added by every member: K times."""

    def bias(self, layer):
        return super().bias(layer) * (self.members if layer.cut else 1)


class PartialSumsNotAdded(Mesh):
    """The gradient of a layer's input is the partial sum of one member: those of the others are not added."""

    def add_partials(self, layer, partials):
        return partials


KINDS = {PartsDivided: 44, PartsMultiplied: 44, PartsOfAllMembers: 45, PartsNotSummed: 45, WholeOverHolders: 45,
         NormPartsKTimes: 46, NormPartsGTimes: 46, NormWholeKTimes: 46, NormEveryCopy: 46, NormOfOwnPart: 46,
         NormWithoutParts: 46, InputGradientKTimes: 51, MembersFarApart: 48, RowsToWrongOwner: 47,
         RoundsOutOfOrder: 47, ColumnsOutOfOrder: 48, DropoutByLocalColumn: 49, BiasByEveryMember: 50,
         PartialSumsNotAdded: 51}
"""Class -> the number in docs/bugs.md, which shows its code beside the right one; 0: it has none."""


def turned(order, shift) -> list:
    """Return the list shifted by ``shift`` places, or reversed if ``shift`` is 0. Local."""
    order = list(order)
    return order[shift:] + order[:shift] if shift else order[::-1]


def alike(found):
    """Return (what layers kept, gradient) of microbatches. Raises ValueError if rows of unlike numbers meet. Local."""
    if any(saved and len(saved[-1][1][0]) != len(grad) for saved, grad in found):
        raise ValueError("rows of microbatches of unlike sizes")
    return found


class Stepped(SimulatedClass):
    """The answers to a case of kind mesh: each rank's parts after a step."""

    kinds = KINDS

    @classmethod
    def names(cls, case):
        """Return the layers that are cut. Local."""
        return [layer.name for layer in layers_of(case) if layer.cut]

    @classmethod
    def variants(cls, kind, cases):
        """Return a kind with each of its shifts, if some case can show it. Local."""
        most, found = max(case.settings["mesh"][1] for case in cases), [kind]
        if hasattr(kind, "shift"):
            shifts = [*turns(most), *([None] if issubclass(kind, ColumnsOutOfOrder) else [])]
            found = [type(kind.__name__, (kind,), {"shift": shift}) for shift in shifts]
        return [one for one in found if any(possible(case, one) for case in cases)]

    def simulate(self, kind):
        if kind is not None and not possible(self.case, kind):
            return None
        case, start, eps = self.case, weights_of(self.case), float(np.finfo(np.float32).eps)

        def wide(arrays):
            return [a.astype(np.float64) for a in arrays]

        def work(world):
            task = task_of(case, world.rank, {what: wide(a) for what, a in case.steps[0][world.rank].items()})
            task.start.update(zip(task.start, wide(task.start.values())))
            return named(case, world.rank, (kind or Mesh)(world, task).run())

        def expected(name, value):
            largest = np.abs(start.get(name.partition(" of ")[0], np.zeros(()))).max(initial=0.0)
            error = np.zeros_like(value) if case.exact else 48 * eps * (largest + np.abs(value))
            return Expected(np.asarray(value), error, "float64" if name == "loss" else "float32")

        try:
            found = run_ranks(case.ranks, work)
        except (ValueError, LeftAlone):  # parts of unlike shapes meet, on some ranks
            return None
        names = dict.fromkeys(name for answer in found for name in answer)
        return [{name: {rank: expected(name, answer[name]) for rank, answer in enumerate(found) if name in answer}
                 for name in names}]


def possible(case, kind) -> bool:
    """Return whether a deviation can change the numbers of a case. Local."""
    groups, members = case.settings["mesh"]
    if not {"groups": groups > 1, "members": members > 1, "both": groups > 1 < members}[getattr(kind, "of", "members")]:
        return False
    if hasattr(kind, "shift") and kind.shift not in (None, *turns(members)):
        return False
    return ((case.settings["clip"] is not None or "Norm" not in kind.__name__)
            and (case.settings["dropout"] or not issubclass(kind, DropoutByLocalColumn)))


def turns(members: int) -> list[int]:
    """Return the shifts that are possible with this number of members. Local."""
    return [*range(1, members), *([0] if members > 2 else [])]
