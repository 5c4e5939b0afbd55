"""The numbers in the cases: functions of a key alone, the same on every machine and with every version of NumPy.

exact:       whole multiples of 840 * 2**-10, so few bits that every sum of them is exact, divided by 1 to 8 too.
provenance:  rank r contributes 4**r times a code of the place: the base-4 digits of a sum say who was counted.
cancelling:  the last rank takes back most of what the others add up to: rounding errors show.
"""

import zlib

import numpy as np

LCM = 840
"""Least common multiple of 1 to 8: what divides it is exact to divide by."""
UNIT = 2.0**-10


def words(key: str, count: int) -> np.ndarray:
    """Return (count,) uint64 pseudo-random words of a key: SplitMix64 (Steele, Lea, Flood 2014). Local."""
    with np.errstate(over="ignore"):
        start = np.uint64(zlib.crc32(key.encode()) * 0x9E3779B97F4A7C15 % 2**64)
        z = start + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def integers(key: str, shape, low: int, high: int) -> np.ndarray:
    """Return int64 numbers, low <= k < high. Local."""
    count = int(np.prod(shape, dtype=np.int64))
    return (words(key, count) % np.uint64(high - low)).astype(np.int64).reshape(shape) + low


def signs(key: str, shape) -> np.ndarray:
    """Return 1 and -1. Local."""
    return np.where(integers(f"{key}sign", shape, 0, 2), 1, -1)


def small(key: str, shape, largest: int) -> np.ndarray:
    """Return whole numbers of both signs, from 1 to ``largest`` in size: float32. Local."""
    return (integers(key, shape, 1, largest + 1) * signs(key, shape)).astype("float32")


def exact(key: str, shape, dtype="float32", place: str | None = None) -> np.ndarray:
    """Return numbers of both signs, none of them 0, whose sums over any ranks and repeats are exact. Local.

    place: the sign depends on it alone, and no number is small: ranks do not cancel each other. For optimizers that
    divide by the gradient's size: there a sum near 0 would blow rounding up.
    """
    size = integers(key, shape, 1 if place is None else 16, 64)
    return (size * signs(place or key, shape) * LCM * UNIT).astype(dtype)


def provenance(rank: int, ranks: int, variable: int, shape, first: int = 0) -> np.ndarray:
    """Return 4**rank * code(place) * odd part of ``ranks``, so that an average is exact too: float32. Local.

    A code is odd and below 256: neighbours in a row, a column or a variable differ. first: number of the first place.
    """
    places = np.arange(first, first + int(np.prod(shape, dtype=np.int64)), dtype=np.int64).reshape(shape)
    codes = 129 + 2 * ((places * 29 + variable * 17) % 63)
    return (4**rank * codes * odd_part(ranks)).astype("float32")


def odd_part(number: int) -> int:
    """Return what is left of a positive number without its factors 2. Local."""
    return number // (number & -number)


def cancelling(key: str, ranks: int, shape, dtype="float32") -> list[np.ndarray]:
    """Return each rank's array: sizes over 2**9, the last rank's close to minus the sum of the others. Local."""
    unit = [integers(f"{key}{r}", shape, -(2**22), 2**22) * 2.0**-22 for r in range(ranks)]
    power = [2.0 ** integers(f"{key}{r}power", shape, -4, 5) for r in range(ranks)]
    arrays = [(u * p).astype(dtype) for u, p in zip(unit, power)]
    if ranks > 1:
        left = 2.0 ** -integers(key + "left", shape, 0, 12).astype(np.float64)
        others = np.sum([a.astype(np.float64) for a in arrays[:-1]], axis=0)
        arrays[-1] = (-others * (1 - left)).astype(dtype)
    return arrays
