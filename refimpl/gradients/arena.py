"""The arena: one flat buffer with many dense arrays as named views. It gives tensor fusion without copies."""

import bisect
import math
from dataclasses import dataclass, replace

import numpy as np

from kernels import array_module
from kernels.arrays import as_array
from refimpl.gradients.codecs import IDENTITY, Codec, codec_of

TOUCHED = "\0touched"
"""The suffix of a variable's marks. Names of variables have no NUL."""


@dataclass(frozen=True)
class Layout:
    """The arrays of an arena: names and shapes in order, of one dtype, without gaps.

    Every rank derives the same layout from the same variables, so arenas have the same format on all ranks.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str

    @classmethod
    def of(cls, variables) -> "Layout":
        """Lay out variables in their order. Raises ValueError if their dtypes differ."""
        dtypes = {v.dtype for v in variables}
        if len(dtypes) > 1:
            first = {v.dtype: v.name for v in reversed(variables)}
            raise ValueError(f"dense variables of different dtypes cannot share an arena: {first}; use one dtype")
        dtype = dtypes.pop() if dtypes else "float32"
        return cls(tuple(v.name for v in variables), tuple(v.shape for v in variables), dtype)

    def encoded(self, codec: Codec) -> "Layout":
        """Return the layout of the messages of these arrays. Local."""
        return replace(self, dtype=codec.dtype_of(self.dtype))

    def with_marks(self) -> "Layout":
        """Return this layout with a mark for each row, which counts the gradients of this row (``RowsAsDense``)."""
        marks = tuple((shape[0],) for shape in self.shapes)
        return Layout(self.names + tuple(n + TOUCHED for n in self.names), self.shapes + marks, self.dtype)

    @property
    def offsets(self) -> list[int]:
        """The offset of each array in elements, and last the total."""
        offsets = [0]
        for shape in self.shapes:
            offsets.append(offsets[-1] + math.prod(shape))
        return offsets

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.offsets[-1]

    def overlaps(self, start: int, stop: int) -> dict[str, int]:
        """Return variable -> how many of its elements and marks lie in [start, stop), for the ledger. Local."""
        offsets, found = self.offsets, {}
        for i in range(max(0, bisect.bisect_right(offsets, start) - 1), len(self.names)):
            if offsets[i] >= stop:
                break
            elements = min(stop, offsets[i + 1]) - max(start, offsets[i])
            if elements > 0:
                variable = self.names[i].removesuffix(TOUCHED)
                found[variable] = found.get(variable, 0) + elements
        return found


class Arena:
    """A flat buffer and its named views: ``arena[name]`` has the array's shape and shares the buffer's memory.

    flat: (layout.size,), the buffer; None: a new one of zeros.
    codec: of the contents, if these are messages (``Layout.encoded``).
    """

    def __init__(self, layout: Layout, xp=np, flat=None, codec: Codec = codec_of(IDENTITY)):
        self.layout, self.codec = layout, codec
        self.flat = xp.zeros(layout.size, dtype=layout.dtype) if flat is None else flat
        offsets = layout.offsets
        self.views = {
            name: self.flat[lo:hi].reshape(shape)
            for name, shape, lo, hi in zip(layout.names, layout.shapes, offsets, offsets[1:])
        }

    def __getitem__(self, name):
        return self.views[name]

    def fill(self, arrays):
        """Copy arrays (name -> array) into the arena; arrays that are missing become zero."""
        xp = array_module(self.flat)
        there = [name for name in self.views if name in arrays]
        self.codec.encode_each([self.views[name] for name in there], [as_array(xp, arrays[name]) for name in there])
        for name, view in self.views.items():
            if name not in arrays:
                view[...] = 0
        return self

    def add(self, arrays):
        """Add arrays (name -> array), or another arena of the same layout, in place."""
        if isinstance(arrays, Arena):
            self.codec.merge(self.flat, arrays.flat)
        else:
            self.codec.merge_each([self.views[name] for name in arrays], list(arrays.values()))
        return self
