"""The classic bugs of data-parallel training, each with the names that a good diagnosis gives it."""

from mutants import mesh as m, owner as o
from mutants.aggregation import AGGREGATION
from mutants.mutant import Mutant
from mutants.training import TRAINING

MUTANTS = (
    *sorted((*AGGREGATION, *TRAINING), key=lambda mutant: mutant.bug),
    Mutant(37, "the old value of a delta is an alias", ("aliased",), o.AliasedOld, "owner"),
    Mutant(37, "the old value of a dense delta is an alias", ("aliased",), o.AliasedDense, "owner"),
    Mutant(38, "a stale gradient is dropped", ("stale-dropped",), o.StaleDropped, "owner"),
    Mutant(39, "a late gradient is counted", ("late-counted",), o.LateCounted, "owner"),
    Mutant(40, "the clock waits one step too early", ("clock-early",), o.ClockEarly, "owner"),
    Mutant(40, "the clock waits one step too late", ("clock-late",), o.ClockLate, "owner"),
    Mutant(41, "staleness is counted per worker", ("staleness-per-worker",), o.StalenessPerWorker, "owner"),
    Mutant(42, "a mean of n pushes is divided by N", ("divided-by-workers",), o.NotRescaled, "owner"),
    Mutant(42, "a mean of n pushes is a sum", ("summed",), o.Summed, "owner"),
    Mutant(43, "rows never pulled are corrected", ("unpulled-rows",), o.UnpulledTaken, "owner"),
    Mutant(44, "a part is averaged over the world", ("parts-divided",), m.AveragedOverWorld, "mesh"),
    Mutant(44, "a part's sum is multiplied by the members", ("parts-multiplied",), m.TimesMembers, "mesh"),
    Mutant(45, "a part is summed over all ranks", ("parts-of-all-members",), m.SummedOverWorld, "mesh"),
    Mutant(45, "a part is not summed over its holders", ("parts-not-summed",), m.GroupAlone, "mesh"),
    Mutant(45, "a whole layer is summed over holders of a part", ("whole-over-holders",), m.WholeOverHolders, "mesh"),
    Mutant(46, "the norm counts a part K times", ("norm-parts-k-times",), m.NormPartsTwice, "mesh"),
    Mutant(46, "the norm counts a part once a holder", ("norm-parts-g-times", "norm-parts-k-times"),
           m.NormOverWorld, "mesh"),
    Mutant(46, "the norm counts whole layers once a member", ("norm-whole-k-times",), m.NormWholeByMembers, "mesh"),
    Mutant(46, "the norm counts every copy", ("norm-every-copy",), m.NormOfEveryCopy, "mesh"),
    Mutant(46, "the norm leaves out the others' parts", ("norm-of-own-part",), m.NormOfOwnPart, "mesh"),
    Mutant(46, "the norm leaves out all parts", ("norm-without-parts",), m.NormWithoutParts, "mesh"),
    Mutant(47, "rows are scattered to the wrong owner", ("rows-to-wrong-owner",), m.RowsToNext, "mesh"),
    Mutant(47, "rounds come back in another order", ("rounds-out-of-order",), m.RoundsInReverse, "mesh"),
    Mutant(48, "columns are gathered in reverse", ("columns-out-of-order",), m.ColumnsInReverse, "mesh"),
    Mutant(48, "a member's own columns come first", ("columns-out-of-order",), m.OwnColumnsFirst, "mesh"),
    Mutant(49, "dropout is drawn by local column", ("dropout-by-local-column",), m.LocalDropout, "mesh"),
    Mutant(50, "every member adds the bias", ("bias-by-every-member",), m.BiasByEveryMember, "mesh"),
    Mutant(48, "a group's members lie far apart", ("members-far-apart",), m.MembersFarApart, "mesh"),
    Mutant(51, "partial sums are not added", ("partial-sums-not-added",), m.PartialSums, "mesh"),
    Mutant(51, "partial sums are added twice", ("input-gradient-k-times",), m.InputGradientTimesMembers, "mesh"),
)
"""Most numbers once; those that name several bugs more often."""
