"""Random numbers as a function of (key, position). They have no state, so they do not depend on order or rank.

The mixer is SplitMix64 (Steele, Lea, Flood 2014): element i of the sequence ``key`` is mix(key + (i + 1) * GOLDEN).
"""

import hashlib
import math

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def key_of(*parts) -> int:
    """Return the 64-bit key of a tuple of ints and strings, e.g. ``key_of(seed, "dropout", step, microbatch)``."""
    text = "\x1f".join(f"{type(p).__name__}:{p}" for p in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def random_bits(key: int, count: int, start: int = 0, xp=np):
    """Return elements ``start`` to ``start + count`` of sequence ``key``: (count,) uint64, uniform."""
    first = (key + (start + 1) * GOLDEN) % 2**64
    z = xp.arange(count, dtype=xp.uint64) * xp.uint64(GOLDEN) + xp.uint64(first)
    z = (z ^ (z >> xp.uint64(30))) * xp.uint64(MIX[0])
    z = (z ^ (z >> xp.uint64(27))) * xp.uint64(MIX[1])
    return z ^ (z >> xp.uint64(31))


def uniform(key: int, count: int, start: int = 0, xp=np):
    """Return numbers k * 2**-53 in [0, 1): (count,) float64."""
    return (random_bits(key, count, start, xp) >> xp.uint64(11)).astype(xp.float64) * 2.0**-53


def dropout_scale(key: int, shape, keep: float, dtype, xp=np, first: int = 0, width: int | None = None):
    """Return 1/keep with probability ``keep``, else 0: array of ``shape`` and ``dtype``.

    Element i (in C order) is kept iff the top 24 bits of random_bits(key)[i] are below keep * 2**24.
    width: the array is columns ``first`` to first + shape[-1] of an array with this width: element (r, c) has the
    number r * width + first + c. None: the array is whole.
    """
    columns = shape[-1] if shape else 1
    rows = math.prod(shape) // max(1, columns)
    bits = random_bits(key, rows * (columns if width is None else width), 0, xp) >> xp.uint64(40)
    part = bits.reshape(rows, columns if width is None else width)[:, first:first + columns]
    kept = part < xp.uint64(round(keep * 2**24))
    return (kept.astype(dtype) * xp.asarray(1 / keep, dtype=dtype)).reshape(shape)
