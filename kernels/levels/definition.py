"""Plain array code for packed levels, and for signs with their means: the oracle. Never optimised."""

import numpy as np


def encode_signs(values, packed):
    """Write a bit for each element, 1 if it is >= 0, the first one highest; return (2,) float32: the mean of all
    others, and of those with 1. Each is added up in float64 from first to last; it is 0 if there are none.
    """
    signs = values >= 0
    packed[...] = np.packbits(signs)
    parts = values[~signs], values[signs]
    return np.array([np.add.accumulate(part, dtype=np.float64)[-1] / len(part) if len(part) else 0 for part in parts],
                    np.float32)


def pack(levels, bits, packed):
    """Write the bits of each level, the lowest first, without gaps: (n,) uint8 -> packed (⌈n bits/8⌉,) uint8."""
    packed[...] = np.packbits((levels[:, None] >> np.arange(bits)) & 1)


def look_up(packed, bits, table, out):
    """Write table[level] for each level: (⌈n bits/8⌉,) uint8 -> out (n,) float32. table: (2^bits,) float32."""
    each = np.unpackbits(packed, count=len(out) * bits).reshape(len(out), bits)
    out[...] = table[each.astype(np.int64) @ (1 << np.arange(bits))]
