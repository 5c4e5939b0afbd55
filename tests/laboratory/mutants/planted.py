"""The classic bugs of data-parallel training, each with the names that a good diagnosis gives it."""

from dataclasses import dataclass, replace

from mutants import aggregation as a, mesh as m, owner as o, training as t
from refimpl.conformance.adapters.reference import EVERYTHING, Reference
from refimpl.notebook.suspects import DividedByPushes, IdsAsFloats


def undeclared(**rules) -> type:
    """Return the adapter that follows other rules than its manifest declares. rules: field -> value of a manifest."""
    class Undeclared(Reference):
        def __init__(self, world):
            super().__init__(world, replace(EVERYTHING, **rules))

        def describe(self):
            return EVERYTHING

    return Undeclared


@dataclass(frozen=True)
class Mutant:
    """bug: its number in the list of classic bugs.  codes: of diagnoses that name it.  make: the adapter's class.

    kind: of the only cases that it can change: owner or mesh; "": any but these.
    """

    bug: int
    words: str
    codes: tuple[str, ...]
    make: type
    kind: str = ""


MUTANTS = (
    Mutant(1, "sparse gradients are never averaged", ("sparse=sum",), a.SparseNotAveraged),
    Mutant(2, "rows are divided by their push count", ("sparse=per-row-count",), DividedByPushes),
    Mutant(3, "a sum reported as average for one dtype", ("dense=sum",), a.SumInOneBackend),
    Mutant(3, "an average divided once more for one dtype", ("divided-again",), a.AverageTwice),
    Mutant(4, "mean of per-rank means", ("loss=mean-of-means",), undeclared(loss="mean-of-means")),
    Mutant(5, "a subgroup's sum divided by the world's size", ("group-divided-by-world",), a.GroupDividedByWorld),
    Mutant(6, "the last batch divided by a full batch's count", ("divided-by-full-batch",), t.FullBatchCount),
    Mutant(7, "a float16 sum overflows before the division", ("half-overflow",), a.HalfOverflow),
    Mutant(8, "accumulation advances the clock per micro-step", ("micro-clock",), t.ClockPerMicroStep),
    Mutant(8, "the partial last window is dropped", ("partial=dropped",), undeclared(partial="dropped")),
    Mutant(9, "the loss scale is not removed", ("loss-scale-kept",), t.LossScaleKept),
    Mutant(10, "rows of one variable with the ids of another", ("ids-of-another",), a.IdsOfAnother),
    Mutant(11, "values added position by position", ("added-by-position",), a.AddedByPosition),
    Mutant(12, "duplicate ids handed to the update", ("duplicates-apart",), t.DuplicatesApart),
    Mutant(13, "duplicate ids overwrite", ("duplicates=last",), undeclared(duplicates="last")),
    Mutant(14, "a sparse reduction does nothing", ("not-reduced",), a.SparseNotReduced),
    Mutant(15, "an empty row gradient crashes", ("empty-row-gradient",), a.EmptyCrashes),
    Mutant(16, "ids pass through float32", ("ids-float32",), IdsAsFloats),
    Mutant(16, "ids pass through int32", ("ids-int32",), a.IdsAsInt32),
    Mutant(17, "one of two uses is lost", ("use-lost",), a.UseLost),
    Mutant(17, "one of two uses is counted twice", ("use-twice",), a.UseTwice),
    Mutant(18, "one table is not broadcast at the start", ("not-broadcast",), t.TableNotBroadcast),
    Mutant(19, "state of untouched rows is decayed", ("untouched=decayed",), undeclared(untouched="decayed")),
    Mutant(20, "fusion size counted in elements", ("fusion-in-elements",), a.FusionInElements),
    Mutant(20, "fusion silently off", ("fusion-off",), a.FusionOff),
    Mutant(21, "unlike variables are summed", ("matched-by-position",), a.MatchedByPosition),
    Mutant(22, "collectives of two kinds meet", ("kinds-mixed",), a.KindsMixed),
    Mutant(23, "a buffer reused before its transfer ended", ("buffer-reused",), a.BufferReused),
    Mutant(24, "a staged copy not copied back", ("not-reduced",), a.NotCopiedBack),
    Mutant(25, "the root is ignored", ("root-ignored",), a.RootIgnored),
    Mutant(26, "the norm is local", ("local-norm",), t.LocalNorm),
    Mutant(26, "the norm leaves out rows", ("clip_norm=dense-scales-all",),
           undeclared(clip_norm="dense-scales-all")),
    Mutant(27, "the learning rate is not restored", ("rate-restarted",), t.RateNotRestored),
    Mutant(27, "the learning rate is restored on rank 0 only", ("rate-restarted",), t.RateOnRankZeroOnly),
    Mutant(27, "the optimizer's state is not restored", ("state-lost",), t.StateNotRestored),
    Mutant(28, "the sampler pads with repeats", ("sampler-pads",), undeclared(sampler="pads")),
    Mutant(28, "the sampler drops the tail", ("sampler-drops",), undeclared(sampler="drops")),
    Mutant(29, "every rank draws the same numbers", ("same-random-numbers",), t.SameRandomNumbers),
    Mutant(30, "a pull sees a step half applied", ("half-applied",), t.HalfApplied),
    Mutant(31, "gradients applied one by one", ("one-by-one", "shares-one-by-one"), t.OneByOne),
    Mutant(32, "the parameter is reduced, not the gradient", ("parameter-reduced",), t.ParameterReduced),
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
