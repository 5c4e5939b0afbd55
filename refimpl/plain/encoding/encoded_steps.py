"""Steps of one encoded gradient on all ranks, with one method for each decision.

    leave the step out        if a gradient of any rank is not finite
    agree on max |g|          over all ranks, where the codec needs a scale (integers)
    encode                    each unit by itself, with what this unit has kept back
    decode, add, divide       each message with its own scales; the mean over all units

With all ranks in one process the conformance suite computes its expected values with this class. A known mistake is the
class with one method replaced (``refimpl.conformance.space.codecs``).
"""

import numpy as np

from refimpl.plain.adding.tree import sum_on
from refimpl.plain.encoding.codecs import Integers, Rounded
from refimpl.plain.encoding.level_codecs import QSGD, OneBit, TernGrad
from refimpl.plain.encoding.power_sgd import compressed
from refimpl.plain.encoding.residuals import MomentumCorrection, Residuals, clipped
from refimpl.plain.encoding.sparse_codecs import AdaComp, Threshold, TopK

MAKERS = {"bf16": lambda n, _: Rounded("bf16"), "fp16": lambda n, _: Rounded("fp16"), "topk": TopK, "dgc": TopK,
          "threshold": Threshold, "adacomp": AdaComp, "onebit": lambda n, _: OneBit(n), "qsgd": QSGD,
          "terngrad": TernGrad}
"""Name -> maker(n, the codec's number). ``Integers`` is made in each step; PowerSGD is two functions."""


class EncodedSteps:
    """The part of one rank. world: has ``rank`` and ``allgather`` as mpi4py communicators do.

    task: a ``CodecTask`` of the conformance suite: the codec and its parameter, and the gradients of this rank's units.
    """

    def __init__(self, world, task):
        self.world, self.task, self.done, self.q = world, task, 0, task.q
        self.residuals = MomentumCorrection(task.momentum) if task.codec == "dgc" else Residuals()

    def run(self):
        """Return for each step {unit: its message}, {unit: its residual}, the mean, and whether it was left out."""
        return [self.step(*step) for step in self.task.steps]

    def step(self, gradients, drawn):
        """Do a step. gradients, drawn: {unit: (n,)}, gradients and random numbers of this rank's units."""
        mine = not all(np.isfinite(g).all() for g in gradients.values())
        skips = self.skips(self.world.allgather(mine))
        doing = {} if skips else gradients
        if self.task.codec == "powersgd":
            messages, mean = {}, self.low_rank(doing)
        else:
            codec = self.codec(doing)
            messages = {unit: self.encode(codec, unit, g, drawn[unit]) for unit, g in doing.items()}
            mean = self.mean(codec, self.gathered(messages))
        residuals = {unit: self.residual(unit) for unit in gradients}
        self.done += 1
        return messages, residuals, np.zeros_like(mean) if skips else mean, skips

    def skips(self, overflows):
        """Return whether this rank leaves the step out. overflows: for each rank whether a gradient is not finite."""
        return any(overflows)

    def codec(self, gradients):
        """Return the codec of this step."""
        if self.task.codec == "integers":
            return Integers(self.task.number, self.task.units, self.largest(gradients))
        return MAKERS[self.task.codec](self.task.size, self.task.number)

    def largest(self, gradients):
        """Return max |g| over the units of all ranks."""
        return max(self.world.allgather(max((np.abs(g).max() for g in gradients.values()), default=0)))

    def keeper(self, unit):
        """Return the key under which a unit's residual is kept: the unit, not the rank."""
        return unit

    def residual(self, unit):
        """Return what a unit has kept back, (n,) float32."""
        return np.array(self.residuals.kept.get(("", self.keeper(unit)), np.zeros(self.task.size, np.float32)))

    def encode(self, codec, unit, gradient, drawn):
        """Return the message of a unit."""
        if self.task.codec == "dgc":
            gradient = clipped(gradient, self.task.clip, self.task.units)
            return self.residuals.encode(codec, "", self.keeper(unit), gradient)
        return self.residuals.encode(codec, "", self.keeper(unit), gradient, drawn)

    def gathered(self, parts):
        """Return the parts of all units, in order of unit. parts: {unit: part}, those of this rank."""
        everyone = {unit: part for parts in self.world.allgather(parts) for unit, part in parts.items()}
        return [everyone[unit] for unit in sorted(everyone)]

    def mean(self, codec, messages):
        """Return the mean over all units, (n,) float32. messages: of all units."""
        if not messages:
            return np.zeros(self.task.size, np.float32)
        return codec.decode(sum_on(1, messages, codec.merge)) / np.float32(self.task.units)

    def low_rank(self, gradients):
        """Do a step of PowerSGD; return the mean."""
        shape = -1, len(self.q)
        matrices = [(g + self.residual(unit)).reshape(shape) for unit, g in gradients.items()]
        decoded, self.q, kept = compressed(matrices, self.q, lambda parts: sum_on(
            1, self.gathered(dict(zip(gradients, parts))), np.add))
        self.residuals.kept.update((("", self.keeper(u)), part.reshape(-1)) for u, part in zip(gradients, kept))
        return decoded.reshape(-1) / np.float32(self.task.units)
