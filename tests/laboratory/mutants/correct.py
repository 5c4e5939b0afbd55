"""Correct implementations, drawn at random: every rule of the manifest, any order of summation. None may be accused."""

import numpy as np

from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.case import Rows
from refimpl.conformance.cases import RANKS
from refimpl.conformance.cases.numbers import words
from refimpl.conformance.semantics import CHOICES, DTYPES, SUPPORTS, Semantics


def correct(number: int) -> tuple[int, Semantics, int]:
    """Return (ranks, manifest, turn) of the number-th correct implementation: a function of the number alone."""
    draw = iter(words(f"correct{number}", len(CHOICES) + 3).tolist())
    manifest = {field: list(values)[next(draw) % len(values)] for field, values in CHOICES.items()}
    ranks, turn, fusion = (next(draw) for _ in range(3))
    semantics = Semantics(name=f"correct-{number}", dtypes=DTYPES, supports=SUPPORTS,
                          fusion_bytes=(64, 256, 4096)[fusion % 3], **manifest)
    return RANKS[ranks % len(RANKS)], semantics, turn % 8


class Reciprocal(Reference):
    """Multiplies by 1 / N, as many do; and clips by norm + 1e-6, as PyTorch does."""

    def over(self, array, divisor):
        return array * array.dtype.type(1 / divisor)

    def clip_factor(self, largest, norm):
        return min(1.0, largest / (norm + 1e-6))


class Wide(Reference):
    """Adds in float64 and rounds once."""

    def fold(self, values, add):
        if isinstance(values[0], Rows):
            return super().fold(values, add)
        return super().fold([np.asarray(v, np.float64) for v in values], add).astype(values[0].dtype)


def adapter(semantics: Semantics, turn: int):
    """Return what makes such an implementation's adapter for a world; its arithmetic depends on ``turn`` too."""
    kind = Reference if semantics.order == "tree" else (Reference, Reciprocal, Wide)[turn % 3]
    return lambda world: kind(world, semantics, turn)
