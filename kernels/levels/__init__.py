"""Gradients of a few levels an element, packed without gaps: signs and their means, or any levels."""

from kernels.arrays import is_numpy
from kernels.levels import cuda, definition, fast
from kernels.levels.fast import encode_signs


def quantise(values, s, norm, key, packed):
    """Write the signs and levels of values, packed; see ``definition.quantise``. Local."""
    (fast if is_numpy(values) else cuda).quantise(values, s, norm, key, packed)


def three_levels(values, most, key, packed):
    """Write one of three levels for each value, packed; return the largest; see ``definition.three_levels``. Local."""
    return (fast if is_numpy(values) else cuda).three_levels(values, most, key, packed)


def look_up(packed, bits, table, out):
    """Write table[level], float32, of each packed level to ``out``, (n,) float32. Local. table: NumPy."""
    (fast if is_numpy(out) else cuda).look_up(packed, bits, table, out)


__all__ = ["definition", "encode_signs", "look_up", "quantise", "three_levels"]
