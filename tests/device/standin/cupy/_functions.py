"""The functions of the stand-in: NumPy's, on what is behind the wall. Only names that CuPy has."""

import numpy as np

from cupy import _keywords, _launches, _races, _touched, standin
from cupy._array import flushed, ndarray, outputs, unwrap, wrap

DTYPES = ("bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 intp "
          "uintp dtype generic floating integer number").split()
CONSTANTS = "e inf nan newaxis pi".split()

UFUNCS = ("absolute add arctan arctan2 bitwise_and bitwise_or bitwise_xor ceil copysign cos cosh divide divmod equal "
          "exp exp2 expm1 fabs floor floor_divide fmax fmin fmod frexp gcd greater greater_equal hypot invert isfinite "
          "isinf isnan ldexp left_shift less less_equal log log10 log1p log2 logaddexp logical_and logical_not "
          "logical_or logical_xor maximum minimum mod modf multiply negative nextafter not_equal positive power "
          "reciprocal remainder right_shift rint sign signbit sin sinh sqrt square subtract tan tanh "
          "true_divide trunc").split()
ARRAYS = ("all allclose amax amin any arange argmax argmin argsort argwhere asfortranarray array_equal array_split "
          "atleast_1d atleast_2d average bincount broadcast_arrays broadcast_to clip column_stack compress concatenate copy "
          "copyto count_nonzero cumprod cumsum diag diff digitize dot dstack einsum empty empty_like expand_dims eye "
          "flatnonzero flip full full_like hstack identity indices inner isclose isin kron lexsort linspace matmul "
          "max mean median meshgrid min moveaxis nanmax nanmin nansum ndim nonzero ones ones_like outer packbits pad "
          "partition place prod put putmask ravel repeat reshape result_type roll rollaxis round searchsorted shape "
          "size sort split squeeze stack std sum swapaxes take take_along_axis tensordot tile trace transpose "
          "tri tril tril_indices triu unique unravel_index vdot vsplit vstack where zeros zeros_like can_cast "
          "isscalar iinfo finfo logspace promote_types ix_ issubdtype unpackbits").split()
WAITS = {"unique", "nonzero", "flatnonzero", "argwhere", "bincount", "compress", "place", "digitize"}
HOST = {"ndim", "shape", "size", "result_type", "can_cast", "isscalar", "iinfo", "finfo", "promote_types", "issubdtype"}
IN_PLACE = {"copyto", "place", "put", "putmask"}
FLOATING = "fdegc"


def ufunc_names():
    return [name for name in UFUNCS if hasattr(np, name)] + ["abs"]


def array_names():
    return [name for name in ARRAYS if hasattr(np, name)]


def _waits(name, args, kwargs) -> bool:
    return name in WAITS or name == "where" and len(args) == 1


def _refuse(name, args, kwargs):
    """Refuse what CuPy cannot do, or not in a fixed order."""
    if name == "repeat" and isinstance(args[1] if len(args) > 1 else kwargs.get("repeats"), (ndarray, np.ndarray)):
        raise ValueError("cupy.repeat takes repeats as an int or a list of ints")
    if name == "bincount" and (len(args) > 1 or kwargs.get("weights") is not None):
        raise AssertionError("bincount with weights adds by atomics: not the same bits twice")
    if name in ("argsort", "sort") and kwargs.get("kind") not in (None, "stable"):
        raise ValueError("kind can only be None or 'stable'")
    if name == "searchsorted" and not isinstance(args[1] if len(args) > 1 else kwargs.get("v"), ndarray):
        raise NotImplementedError("Only int or ndarray are supported for v")
    if name == "lexsort" and not isinstance(args[0], ndarray):
        raise TypeError("cupy.lexsort takes one array of keys: cupy.stack them")


def _call(name, numpy_function, args, kwargs):
    _keywords.check("functions", name, kwargs)
    _refuse(name, args, kwargs)
    if name not in HOST and _waits(name, args, kwargs):
        standin.crossed("number", 8, f"how many {name} finds")
    given = [unwrap(one) for one in args]
    named = {key: unwrap(one) for key, one in kwargs.items()}
    with np.errstate(all="ignore"):
        result = numpy_function(*given, **named)
    if name in HOST:
        return result
    _launches.note(name, [unwrap(one) for one in (*args, *kwargs.values())], result)
    sources = [one for group in (args, kwargs.values()) for one in group]
    for one in list(sources):
        if isinstance(one, (list, tuple)):
            sources.extend(one)
    _touched.note(result, sources, [args[0]] if name in IN_PLACE else outputs(kwargs))
    return wrap(result, *sources)


class ufunc:
    """A function of elements, with ``at`` and ``reduce`` as CuPy has them."""

    def __init__(self, name):
        self.__name__, self._numpy = name, getattr(np, name)
        self.nin, self.nout, self.nargs = self._numpy.nin, self._numpy.nout, self._numpy.nargs

    def __call__(self, *args, **kwargs):
        return _call(self.__name__, lambda *given, **named: flushed(self._numpy(*given, **named)), args, kwargs)

    def at(self, a, indices, b=None):
        if self.__name__ not in ("add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"):
            raise NotImplementedError(f"`{self.__name__}.at` is not supported yet")
        if a.dtype.char not in "efdILQi":
            raise TypeError(f"scatter_{self.__name__} only supports int32, float16, float32, float64, uint32, uint64, "
                            f"as data type, not {a.dtype}")
        host = unwrap(indices)
        flat = np.atleast_1d(host if not isinstance(host, tuple) else np.ravel_multi_index(host, a.shape[:len(host)]))
        if self.__name__ in ("add", "subtract") and a.dtype.char in FLOATING and len(np.unique(flat)) < flat.size:
            raise AssertionError(f"{self.__name__}.at adds repeated floats by atomics: not the same bits twice")
        _races.writes(a)
        for one in (*(indices if isinstance(indices, tuple) else (indices,)), b):
            if type(one) is ndarray:
                _races.reads(one)
        with np.errstate(all="ignore"):
            self._numpy.at(unwrap(a), host, unwrap(b))

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False):
        return _call("reduce", self._numpy.reduce, (array, axis, dtype, out, keepdims), {})


def function(name):
    """Return the stand-in's function of a name."""
    if isinstance(getattr(np, name), np.ufunc):
        return ufunc(name)
    numpy_function = getattr(np, name)

    def call(*args, **kwargs):
        return _call(name, numpy_function, args, kwargs)

    call.__name__ = name
    return call
