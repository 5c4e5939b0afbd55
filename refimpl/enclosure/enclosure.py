"""The enclosure: an array of balls, each of which holds what any correct evaluation could have computed.

    |value[i] - middle[i]| <= radius[i]

Middle and radius are float64 arrays of one shape; ``dtype`` is that of the values they stand for, float32 or float64.
Models and kernels run on enclosures as they run on NumPy and CuPy (docs/design.md, I6): ``array_module`` of one is
``namespace``, and kernels take their plain version. Indexing and reshaping give views; assignment writes through them.
"""

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class Enclosure(NDArrayOperatorsMixin):
    """An array of balls. middle, radius: float64 arrays of one shape, kept as they are.  dtype: of the values.

    Operators are NumPy's ufuncs, and those the functions of ``namespace``.
    """

    __slots__ = ("middle", "radius", "dtype")
    __hash__ = None
    functions = None
    """The module ``namespace``, which puts itself here: it is made of enclosures, and so imports this one."""

    def __init__(self, middle, radius, dtype):
        self.middle, self.radius, self.dtype = np.asarray(middle), np.asarray(radius), np.dtype(dtype)

    @classmethod
    def exact(cls, values, dtype=None) -> "Enclosure":
        """Return balls of radius 0 around the values, rounded to ``dtype`` as every device rounds them. Local."""
        values = np.asarray(values)
        dtype = np.dtype(dtype or values.dtype)
        middle = values.astype(dtype).astype(np.float64)
        return cls(middle, np.zeros_like(middle), dtype)

    # -- what it is ----------------------------------------------------------------------------------------------------
    shape = property(lambda self: self.middle.shape)
    ndim = property(lambda self: self.middle.ndim)
    size = property(lambda self: self.middle.size)
    T = property(lambda self: self.moved(np.transpose))

    def __array_namespace__(self, api_version=None):
        """The array module of an enclosure, as the Python array API standard asks for it."""
        return self.functions

    def __len__(self):
        return len(self.middle)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __repr__(self):
        return f"Enclosure({self.middle!r} ± {self.radius!r}, {self.dtype})"

    def __array__(self, dtype=None, copy=None):
        raise TypeError("an enclosure is no array of numbers: add the operation to "
                        "refimpl.enclosure.namespace")

    @property
    def magnitude(self):
        """The largest absolute value in each ball."""
        return np.abs(self.middle) + self.radius

    @property
    def lowest(self):
        """The lower end of each ball, rounded downwards; the value itself where the radius is 0."""
        return np.where(self.radius == 0, self.middle, np.nextafter(self.middle - self.radius, -np.inf))

    @property
    def highest(self):
        """The upper end of each ball, rounded upwards."""
        return np.where(self.radius == 0, self.middle, np.nextafter(self.middle + self.radius, np.inf))

    # -- moves: nothing rounds -----------------------------------------------------------------------------------------
    def moved(self, move):
        """Return the balls after ``move``, which changes the places of an array's elements only."""
        return Enclosure(move(self.middle), move(self.radius), self.dtype)

    def __getitem__(self, index):
        return self.moved(lambda values: values[index])

    def __setitem__(self, index, value):
        value = self.functions.enclosed(value, self.dtype)
        self.middle[index], self.radius[index] = value.middle, value.radius

    def reshape(self, *shape):
        """Return the balls in another shape: a view."""
        return self.moved(lambda values: values.reshape(*shape))

    def transpose(self, *axes):
        """Return the balls with their axes permuted: a view."""
        return self.moved(lambda values: values.transpose(*axes))

    def copy(self):
        """Return balls of their own memory."""
        return self.moved(np.copy)

    def astype(self, dtype, copy=True):
        """Return the balls of another dtype; rounding to a coarser one makes them grow."""
        if np.dtype(dtype) != self.dtype:
            return self.functions.enclosed(self, dtype)
        return self.copy() if copy else self

    # -- reductions, and the ufuncs of NumPy ---------------------------------------------------------------------------
    def sum(self, axis=None, dtype=None, keepdims=False):
        """Return the sum over axes, added in any order."""
        return self.functions.sum(self, axis, dtype, keepdims)

    def mean(self, axis=None):
        """Return the mean over axes, added in any order."""
        return self.functions.mean(self, axis)

    def max(self, axis=None, keepdims=False):
        """Return the largest value over axes."""
        return self.functions.max(self, axis, keepdims)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        function = getattr(self.functions, ufunc.__name__, None)
        if function is None or method != "__call__":
            return NotImplemented
        return function(*inputs, **options) if out is None else function(*inputs, out=out[0], **options)


class Truth:
    """What a comparison of enclosures tells: where it surely holds, and where it may. Two bool arrays."""

    __slots__ = ("surely", "maybe")

    def __init__(self, surely, maybe):
        self.surely, self.maybe = np.asarray(surely), np.asarray(maybe)

    def astype(self, dtype) -> Enclosure:
        """Return 1 where it holds, 0 where it does not, and a ball of both where that is not known."""
        low, high = self.surely.astype(np.float64), self.maybe.astype(np.float64)
        return Enclosure((low + high) / 2, (high - low) / 2, dtype)
