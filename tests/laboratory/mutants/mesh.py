"""Bugs of layers cut over groups: the deviations that the suite knows, planted in the reference adapter."""

from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.space.mesh import KINDS, ColumnsOutOfOrder, RoundsOutOfOrder


def stepping(bug: type, **how) -> type:
    """Return the reference adapter with other groups. how: attributes of the bug."""
    return type(bug.__name__, (Reference,), {"mesh": type(bug.__name__, (bug,), how)})


(AveragedOverWorld, TimesMembers, SummedOverWorld, GroupAlone, WholeOverHolders, NormPartsTwice, NormOverWorld,
 NormWholeByMembers, NormOfEveryCopy, NormOfOwnPart, NormWithoutParts, InputGradientTimesMembers, MembersFarApart,
 RowsToNext, _, _, LocalDropout, BiasByEveryMember, PartialSums) = map(stepping, KINDS)
RoundsInReverse, ColumnsInReverse = (stepping(bug, shift=0) for bug in (RoundsOutOfOrder, ColumnsOutOfOrder))
OwnColumnsFirst = stepping(ColumnsOutOfOrder, shift=None)
