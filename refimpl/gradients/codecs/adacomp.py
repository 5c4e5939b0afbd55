"""Equals ``plain.encoding.sparse_codecs.AdaComp``: send what another such step would make a bin's largest elements.

    send v where |v + g| >= max |v| of the bin, if this is above 0. The user chooses no ratio. 8 bytes each.
"""

from dataclasses import dataclass

import numpy as np

from refimpl.gradients.codecs.picked import Picked


@dataclass(frozen=True)
class AdaComp(Picked):
    """size: the elements of a bin. How many elements a message has depends on the gradients."""

    name, form, effort = "adacomp", "adacomp:BIN", 4.6

    size: int = 50

    @classmethod
    def of(cls, parameter):
        return cls(cls.whole(parameter, 10**8 - 1, "the elements of a bin, e.g. adacomp:50"))

    def places(self, values, gradient):
        if not len(values):
            return np.arange(0)
        largest = np.maximum.reduceat(np.abs(values), np.arange(0, len(values), self.size)).repeat(self.size)
        largest = largest[:len(values)]
        return np.flatnonzero((np.abs(values + gradient) >= largest) & (largest > 0))
