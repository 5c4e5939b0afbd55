"""Equals ``plain.encoding.residuals.MomentumCorrection``: deep gradient compression, momentum before the choice.

    g clipped to NORM / √V     u = m u + g     v += u     send v at the largest |v|     u = v = 0 there     8 k bytes
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from refimpl.gradients.codecs.topk import TopK
from refimpl.plain.encoding.residuals import clipped, dgc_ratio


@dataclass(frozen=True)
class DGC(TopK):
    """steps: of each stage of the warm-up, which sends 1/4, 1/16, 1/64, … of the elements; 0: no warm-up.

    norm: the gradient of each of V microbatches is clipped to norm / √V, variable by variable; None: no clipping.
    units: V.
    """

    name, form, effort = "dgc", "dgc:RATIO:STEPS:NORM", 2.0
    kept, optimizer = 2, "sgd"
    momentum: ClassVar[float] = 0.9

    steps: int = 0
    norm: float | None = None
    units: int = 1

    @classmethod
    def of(cls, parameter):
        ratio, colon, steps = parameter.partition(":")
        steps, clips, norm = steps.partition(":")
        if not 0 < cls.number(ratio) <= 1:
            raise ValueError(f"codec {cls.name}:{parameter[:20]}: give a ratio above 0 and up to 1, e.g. dgc:0.001, or "
                             "dgc:0.001:500 with a warm-up in stages of 500 steps")
        if clips and not 0 < cls.number(norm) < math.inf:
            raise ValueError(f"codec {cls.name}:{parameter[:20]}: give a norm above 0, e.g. dgc:0.001:500:1.0, to "
                             "which the gradients of all microbatches together are clipped")
        wanted = "a number of steps after the ratio, e.g. dgc:0.001:500"
        return cls(float(ratio), cls.whole(steps, 10**9, wanted) if colon else 0, float(norm) if clips else None)

    def at(self, step, units):
        return replace(self, ratio=dgc_ratio(self.ratio, step, self.steps), units=units)

    def add(self, kept, gradient):
        v, u = kept
        if self.norm is not None:
            with np.errstate(invalid="ignore"):  # infinity times 0 is NaN, which ends the training
                gradient = clipped(gradient, self.norm, self.units)
        u *= np.float32(self.momentum)
        u += gradient
        v += u
        return v

    def drop(self, kept, places, sent):
        kept[:, places] = 0
