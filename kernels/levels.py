"""Gradients with a few levels for each element, packed without gaps; in Numba, without large temporary arrays.

The plain version: ``plain.encoding.level_codecs``.
"""

from functools import cache

import numpy as np

from kernels.compiled import compiled, inlined
from kernels.random.fast import before, random_bits_of

WIDE = {2: np.complex128, 4: np.uint64}
"""Bits of a level -> a type as wide as the float32 numbers for one byte, which are copied at once."""
BLOCK = 1024
"""Levels that are computed before they are packed, a multiple of 8: they stay in the first-level cache."""


def encode_signs(values, packed):
    """Write a bit for each element, 1 if it is >= 0, the first one highest in a byte; return two means (2,) float32.

    They are the means of elements with 0, and with 1, added up in float64 from first to last; 0 if there are none.
    Local.
    """
    means = np.empty(2, np.float32)
    _encode_signs(values, packed, means)
    return means


def quantise(values, s, norm, key, packed):
    """Write a sign and a level from 0 to s for each float32 value, packed: |value| s / norm, rounded at random. Local.

    The lowest bit is the sign. norm: float32, at least the largest size.  packed: (⌈n (1 + bits of s)/8⌉,) uint8.
    """
    bits = 1 + s.bit_length()
    norm = np.float64(norm) or 1.0  # 0 if all values are
    _quantise(values, float(s), norm, before(key, 0), bits, turned(bits), packed, np.empty(BLOCK, np.uint8))


def three_levels(values, most, key, packed):
    """Clip values to [-most, most]; write level 1 or 2, for m or -m, with probability |value| / m, else 0. Return m.

    m: the largest size after clipping.  (n,) float32 -> packed (⌈n/4⌉,) uint8.  most: float32.  Local.
    """
    largest = np.minimum(np.abs(values).max(initial=0), most)  # NaN if one of them is
    _three_levels(values, np.float64(largest), before(key, 0), turned(2), packed, np.empty(BLOCK, np.uint8))
    return largest


def look_up(packed, bits, table, out):
    """Write table[level] for each level: (⌈n bits/8⌉,) uint8 -> out (n,) float32. table: (2^bits,) float32. Local."""
    if bits == 1:
        return _look_up_signs(packed, table[0], table[1], out)
    by_bits, whole = table[turned(bits)], 0
    if (wide := WIDE.get(bits)) and out.flags.aligned:
        each = 8 // bits
        whole = len(out) // each * each
        places = np.arange(256)[:, None] >> np.arange(8 - bits, -1, -bits) & (1 << bits) - 1
        _look_up_bytes(packed, by_bits[places].view(wide)[:, 0], out[:whole].view(wide))
    _look_up(packed[whole * bits // 8:], bits, by_bits, out[whole:])


@cache
def turned(bits):
    """Return each level of this number of bits with its bits in reverse order: (2^bits,) uint8."""
    return np.array([int(f"{level:0{bits}b}"[::-1], 2) for level in range(1 << bits)], np.uint8)


@compiled
def _encode_signs(values, packed, means):
    below = above = -0.0  # which adds nothing, not even to another -0.0
    count = 0
    for byte in range(len(packed)):
        bits = 0
        for i in range(8 * byte, min(8 * byte + 8, len(values))):
            value = np.float64(values[i])
            sign = value >= 0
            above += value if sign else -0.0  # without a branch: nobody can predict a sign
            below += -0.0 if sign else value
            count += sign
            bits = 2 * bits + sign
        bits <<= max(0, 8 * byte + 8 - len(values))
        packed[byte] = bits
    others = len(values) - count
    means[0] = np.float32(below / others) if others else np.float32(0)
    means[1] = np.float32(above / count) if count else np.float32(0)


@inlined
def _pack(levels, count, bits, turned, packed, first):
    """Pack ``count`` levels, then zeros. first: the first byte. Levels of 2 and 4 bits fill a register at once."""
    end = min(len(packed) - first, -(-count * bits // 8))
    if bits == 2:
        for i in range(end):
            byte = levels[4 * i] << 6 | levels[4 * i + 1] << 4 | levels[4 * i + 2] << 2 | levels[4 * i + 3]
            packed[first + i] = (byte & 0x55) << 1 | byte >> 1 & 0x55
    elif bits == 4:
        for i in range(end):
            byte = levels[2 * i] << 4 | levels[2 * i + 1]
            byte = (byte & 0x55) << 1 | byte >> 1 & 0x55
            packed[first + i] = (byte & 0x33) << 2 | byte >> 2 & 0x33
    else:
        for group in range(-(-count // 8)):  # eight levels are ``bits`` bytes
            word = np.uint64(0)
            for i in range(8):
                word |= np.uint64(turned[levels[8 * group + i]]) << np.uint64(bits * (7 - i))
            for byte in range(min(bits, end - group * bits)):
                packed[first + group * bits + byte] = word >> np.uint64(8 * (bits - 1 - byte))


@compiled
def _quantise(values, s, norm, before, bits, turned, packed, block):
    for start in range(0, len(values), BLOCK):
        count = min(BLOCK, len(values) - start)
        for i in range(count):  # without branches or calls: eight at a time in one register
            u = np.float64(random_bits_of(before, start + i) >> np.uint64(11)) * 2.0**-53
            value = np.float64(values[start + i])
            level = abs(value) * s / norm + u
            block[i] = np.uint8(2 * np.int32(level if level < s else s) + (value < 0))
        block[count:] = 0
        _pack(block, count, bits, turned, packed, start // 8 * bits)


@compiled
def _three_levels(values, largest, before, turned, packed, block):
    for start in range(0, len(values), BLOCK):
        count = min(BLOCK, len(values) - start)
        for i in range(count):
            u = np.float64(random_bits_of(before, start + i) >> np.uint64(11)) * 2.0**-53
            value = values[start + i]
            size = np.float64(abs(value))
            sent = u * largest < (size if size < largest else largest)
            block[i] = np.uint8(1 + (value < 0)) if sent else np.uint8(0)
        block[count:] = 0
        _pack(block, count, 2, turned, packed, start // 4)


@compiled
def _look_up_bytes(packed, of_byte, out):
    """Write the numbers for each byte at once. of_byte: the float32 numbers for each byte, as one number."""
    for i in range(len(out)):
        out[i] = of_byte[packed[i]]


@compiled
def _look_up_signs(packed, below, above, out):
    for i in range(len(out)):
        out[i] = above if packed[i >> 3] >> (7 - (i & 7)) & 1 else below


@compiled
def _look_up(packed, bits, table, out):
    """Write table[level] for each level. table: ordered by levels with reversed bits, as they are in the bytes."""
    mask = np.uint64((1 << bits) - 1)
    for group in range(-(-len(out) // 8)):
        word = np.uint64(0)
        for byte in range(group * bits, group * bits + bits):
            word = word << np.uint64(8) | np.uint64(packed[byte] if byte < len(packed) else 0)
        for i in range(8 * group, min(8 * group + 8, len(out))):
            out[i] = table[word >> np.uint64(bits * (7 - (i & 7))) & mask]
