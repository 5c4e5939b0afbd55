"""Sums and products of matrices on enclosures: each is one operation of many terms, whatever order a device adds in."""

import math

import numpy as np

from refimpl.enclosure.elementwise import grown
from refimpl.enclosure.rounding import flushed, gamma


def of_terms(magnitude, terms, dtype):
    """Return the error of sums of ``terms`` terms whose absolute values add up to ``magnitude``. Local.

    Each product may be too small for a normal number, and each sum.
    """
    return gamma(terms, dtype) * magnitude + flushed(magnitude, dtype, 2 * terms)


def product(combine, a, b, terms, dtype, plus=None):
    """Return the enclosure of combine(a, b) + plus, a sum of products x y, ``terms`` of them for an element. Local.

    |sum x y - sum a b| <= sum |a| |y - b| + sum |x - a| |y|
    """
    middle, magnitude = combine(a.middle, b.middle), combine(a.magnitude, b.magnitude)
    moved = combine(np.abs(a.middle), b.radius) + combine(a.radius, b.magnitude)
    if plus is not None:
        middle, moved, magnitude = middle + plus.middle, moved + plus.radius, magnitude + plus.magnitude
        terms += 1
    return grown(middle, moved, of_terms(magnitude, terms, dtype), dtype)


def matmul(a, b, dtype, plus=None):
    """A product of matrices or vectors, and what is added to it."""
    return product(np.matmul, a, b, a.shape[-1], dtype, plus)


def einsum(subscripts, a, b, dtype):
    """A sum of products over the letters that the result has not."""
    inputs, output = subscripts.split("->")
    sizes = {letter: n for names, x in zip(inputs.split(","), (a, b)) for letter, n in zip(names, x.shape)}
    terms = math.prod(n for letter, n in sizes.items() if letter not in output)
    return product(lambda x, y: np.einsum(subscripts, x, y), a, b, terms, dtype)


def total(a, axis, dtype, keepdims=False):
    """Return the sum over axes."""
    def add_up(values):
        return np.asarray(values.sum(axis=axis, keepdims=keepdims))

    middle = add_up(a.middle)
    terms = a.size // max(middle.size, 1)
    error = of_terms(add_up(a.magnitude), terms, dtype) if terms > 1 else np.zeros(middle.shape)
    return grown(middle, add_up(a.radius), error, dtype)


def add_at(target, index, values):
    """target[index] += values, whose repeats meet in any order. In place, along the first axis."""
    counts = np.bincount(index, minlength=len(target)) + 1
    most, magnitude = int(counts.max(initial=1)), target.magnitude
    for array, more in ((target.middle, values.middle), (target.radius, values.radius), (magnitude, values.magnitude)):
        np.add.at(array, index, more)
    error = of_terms(magnitude, most, target.dtype)
    error[counts == 1] = 0
    target.radius[...] = grown(target.middle, target.radius, error, target.dtype).radius
