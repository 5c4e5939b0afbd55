"""Wrong codecs: the plain steps with one method replaced. The docstring of a class says what is wrong."""

import numpy as np

from refimpl.conformance.bounds import Expected
from refimpl.conformance.case import numbers_of, with_numbers
from refimpl.conformance.cases.codecs import largest_of, named, task_of
from refimpl.conformance.space.deviation import SimulatedClass
from refimpl.conformance.worlds import run_ranks
from refimpl.plain.encoding.codecs import Integers
from refimpl.plain.encoding.encoded_steps import EncodedSteps
from refimpl.plain.encoding.level_codecs import LevelCodec


class ResidualNotAdded(EncodedSteps):
    """The residual is not added to the next gradient: it is lost."""

    def keeper(self, unit):
        return unit, self.done


class ResidualDropped(ResidualNotAdded):
    """The residual is dropped: the part of a gradient that a message leaves out is lost."""

    def residual(self, unit):
        return np.zeros(self.task.size, np.float32)


class ResidualByRank(EncodedSteps):
    """The residual is kept by rank, not by unit: a unit's gradient gets the residual of another unit."""

    def keeper(self, unit):
        return self.world.rank


class ScaleNotShared(EncodedSteps):
    """The scale is a rank's own, not shared between ranks: integers with unlike scales are added."""

    def largest(self, gradients):
        return max(np.abs(g).max() for g in gradients.values())


class LevelsBeforeScales(EncodedSteps):
    """Levels are averaged before they are decoded: the mean of all scales decodes every unit's levels."""

    def mean(self, codec, messages):
        if isinstance(codec, LevelCodec):
            scales = np.mean([scales for _, scales in messages], axis=0, dtype=np.float32)
            messages = [(levels, scales) for levels, _ in messages]
        return super().mean(codec, messages)


class IntegersDivided(EncodedSteps):
    """Integers are averaged before they are decoded: the division loses their fraction."""

    def mean(self, codec, messages):
        if isinstance(codec, Integers):
            return codec.decode((sum(whole for whole, in messages) // len(messages),))
        return super().mean(codec, messages)


class OverflowSkippedAlone(EncodedSteps):
    """Only the rank with an overflow leaves the step out: all ranks must leave it out."""

    def skips(self, overflows):
        return overflows[self.world.rank]


KINDS = {ResidualNotAdded: 52, ResidualDropped: 52, ResidualByRank: 53, ScaleNotShared: 54, LevelsBeforeScales: 55,
         IntegersDivided: 55, OverflowSkippedAlone: 56}
"""Class -> the number in docs/bugs.md, which shows its code beside the right one."""


class Encoded(SimulatedClass):
    """The answers to a case of kind codec: ``refimpl.plain.encoding.encoded_steps`` on all ranks in one process.

    A mean of exact numbers may be rounded twice. If a codec divides by a root or adds in float32, a number may be wrong
    by 64 eps of the largest gradient.
    """

    kinds = KINDS

    def simulate(self, kind):
        case, eps = self.case, float(np.finfo(np.float32).eps)
        with np.errstate(all="ignore"):
            found = run_ranks(case.ranks, lambda world: named((kind or EncodedSteps)(world, task_of(
                case, world.rank, [step[world.rank] for step in case.steps])).run()))

        def expected(step, name, rank):
            value = found[rank][step][name]
            numbers = numbers_of(value)
            error = 64 * eps * largest_of(case) if not case.exact else 2 * eps * np.abs(numbers) * (name == "mean")
            return Expected(with_numbers(value, lambda x: x.astype(np.float64)), np.where(
                numbers.dtype.kind == "f", error, 0.0) * np.ones(numbers.shape), numbers.dtype.name)

        return [{v.name: {rank: expected(step, v.name, rank) for rank in case.settings["holders"].get(
            v.name, range(case.ranks))} for v in case.variables} for step in range(len(case.steps))]
