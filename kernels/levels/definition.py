"""Plain array code for packed levels, and for signs with their means: the oracle. Never optimised."""

import numpy as np

from kernels.random.definition import uniform


def encode_signs(values, packed):
    """Write a bit for each element, 1 if it is >= 0, the first one highest in a byte; return two means (2,) float32.

    They are the means of elements with 0, and with 1, added up in float64 from first to last; 0 if there are none.
    """
    signs = values >= 0
    packed[...] = np.packbits(signs)
    parts = values[~signs], values[signs]
    return np.array([np.add.accumulate(part, dtype=np.float64)[-1] / len(part) if len(part) else 0 for part in parts],
                    np.float32)


def pack(levels, bits, packed):
    """Write the bits of each level, the lowest first, without gaps: (n,) uint8 -> packed (⌈n bits/8⌉,) uint8."""
    packed[...] = np.packbits((levels[:, None] >> np.arange(bits)) & 1)


def quantise(values, s, norm, key, packed):
    """Write a sign and a level from 0 to s for each float32 value, packed: |value| s / norm, rounded at random.

    The lowest bit is the sign. norm: float32, at least the largest size.  packed: (⌈n (1 + bits of s)/8⌉,) uint8.
    """
    exact = np.abs(values.astype(np.float64)) * s / norm if norm else np.zeros(len(values))
    levels = np.minimum(np.floor(exact + uniform(key, len(values))).astype(np.int64), s)
    pack((2 * levels + (values < 0)).astype(np.uint8), 1 + s.bit_length(), packed)


def three_levels(values, most, key, packed):
    """Clip values to [-most, most]; write level 1 or 2, for m or -m, with probability |value| / m, else 0. Return m.

    m: the largest size after clipping.  (n,) float32 -> packed (⌈n/4⌉,) uint8.  most: float32.
    """
    values = np.clip(values, -most, most)
    largest = np.abs(values).max(initial=0)
    sent = uniform(key, len(values)) * largest < np.abs(values)
    pack(np.where(sent, np.where(values < 0, 2, 1), 0).astype(np.uint8), 2, packed)
    return largest


def look_up(packed, bits, table, out):
    """Write table[level] for each level: (⌈n bits/8⌉,) uint8 -> out (n,) float32. table: (2^bits,) float32."""
    each = np.unpackbits(packed, count=len(out) * bits).reshape(len(out), bits)
    out[...] = table[each.astype(np.int64) @ (1 << np.arange(bits))]
