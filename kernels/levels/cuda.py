"""Packed levels on a GPU: a thread finds and packs eight of them, or looks one up. Same bytes as ``definition``."""

import numpy as np

from kernels.arrays import array_module
from kernels.cuda import each_element, helper
from kernels.random.cuda import FRACTION, mixed
from kernels.random.fast import before


def quantise(values, s, norm, key, packed):
    norm = np.float64(norm) or np.float64(1)  # 0 if all values are
    quantise_eight(1, -(-values.size // 8), values, values.size, np.float64(s), norm, before(key, 0),
                   1 + s.bit_length(), packed, packed.size)


def three_levels(values, most, key, packed):
    """See ``definition.three_levels``. The host waits for the largest size."""
    largest = np.minimum(abs(values).max().get() if values.size else np.float32(0), most)
    choose_eight(1, -(-values.size // 8), values, values.size, np.float64(largest), before(key, 0), packed, packed.size)
    return largest


def look_up(packed, bits, table, out):
    """See ``definition.look_up``. table: on the host."""
    look_up_one(1, out.size, packed, bits, array_module(out).asarray(table), out)


@helper
def appended(word, level, bits):
    """Return a word with a level's bits after its own, the lowest first."""
    for bit in range(bits):
        word = word << np.uint64(1) | np.uint64(level >> bit & 1)
    return word


@helper
def put(word, group, bits, packed, size):
    """Write the bytes of eight levels, up to the end of the message."""
    for byte in range(bits):
        place = group * bits + byte
        if place < size:
            packed[place] = np.uint8(word >> np.uint64(8 * (bits - 1 - byte)) & np.uint64(255))


@each_element
def quantise_eight(row, group, values, count, s, norm, first, bits, packed, size):
    """Write eight levels with their signs."""
    word = np.uint64(0)
    for place in range(8 * group, 8 * group + 8):
        level = 0
        if place < count:
            value = np.float64(values[place])
            exact = abs(value) * s / norm + np.float64(mixed(first, place) >> np.uint64(11)) * FRACTION
            level = 2 * np.int64(exact if exact < s else s) + (1 if value < 0 else 0)
        word = appended(word, level, bits)
    put(word, group, bits, packed, size)


@each_element
def choose_eight(row, group, values, count, largest, first, packed, size):
    """Write eight levels of 0, 1 and 2."""
    word = np.uint64(0)
    for place in range(8 * group, 8 * group + 8):
        level = 0
        if place < count:
            value = np.float64(values[place])
            part = abs(value) if abs(value) < largest else largest
            if np.float64(mixed(first, place) >> np.uint64(11)) * FRACTION * largest < part:
                level = 2 if value < 0 else 1
        word = appended(word, level, 2)
    put(word, group, 2, packed, size)


@each_element
def look_up_one(row, place, packed, bits, table, out):
    """Write what an element's level stands for."""
    level = 0
    for bit in range(bits):
        at = place * bits + bit
        level |= (np.int64(packed[at >> 3]) >> (7 - (at & 7)) & 1) << bit
    out[place] = table[level]
