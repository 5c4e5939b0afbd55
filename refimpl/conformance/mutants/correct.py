"""Correct implementations, drawn at random: every rule of the manifest, any order of summation. None may be accused."""

from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.cases.numbers import words
from refimpl.conformance.semantics import CHOICES, DTYPES, SUPPORTS, Semantics

RANKS = (1, 2, 3, 4, 5, 8)


def correct(number: int) -> tuple[int, Semantics, int]:
    """Return (ranks, manifest, turn) of the number-th correct implementation: a function of the number alone."""
    draw = iter(words(f"correct{number}", len(CHOICES) + 3).tolist())
    manifest = {field: list(values)[next(draw) % len(values)] for field, values in CHOICES.items()}
    ranks, turn, fusion = (next(draw) for _ in range(3))
    semantics = Semantics(name=f"correct-{number}", dtypes=DTYPES, supports=SUPPORTS,
                          fusion_bytes=(64, 256, 4096)[fusion % 3], **manifest)
    return RANKS[ranks % len(RANKS)], semantics, turn % 8


def adapter(semantics: Semantics, turn: int):
    """Return what makes such an implementation's adapter for a world."""
    return lambda world: Reference(world, semantics, turn)
