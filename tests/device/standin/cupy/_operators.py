"""The operators and methods of the stand-in's ndarray."""

import numpy as np

from cupy import _keywords, _launches, _touched, standin
from cupy._array import SCALARS, flushed, ndarray, outputs, unwrap, wrap


def _binary(name):
    def operator(self, other):
        if not (type(other) is ndarray or isinstance(other, SCALARS)):
            if isinstance(other, np.ndarray):
                raise TypeError(f"Unsupported type {type(other)}")
            return NotImplemented
        with np.errstate(all="ignore"):
            result = flushed(getattr(self._host, name)(unwrap(other)))
        _launches.note(name, () if name.startswith("__i") else (self._host, unwrap(other)), result)
        _touched.note(result, (self, other), [self] if result is self._host else ())
        return wrap(result, self)

    operator.__name__ = name
    return operator


def _unary(name):
    def operator(self):
        with np.errstate(all="ignore"):
            result = getattr(self._host, name)()
        _launches.note(name, (), result)
        _touched.note(result, (self,))
        return wrap(result, self)

    operator.__name__ = name
    return operator


WAITS = {"nonzero", "argwhere", "compress"}
IN_PLACE = {"fill", "partition", "put", "sort"}


def _method(name):
    def method(self, *args, **kwargs):
        _keywords.check("methods", name, kwargs)
        if name in WAITS:
            standin.crossed("number", 8, f"how many {name} finds")
        given = [unwrap(one) for one in args]
        named = {key: unwrap(one) for key, one in kwargs.items()}
        with np.errstate(all="ignore"):
            result = getattr(self._host, name)(*given, **named)
        _launches.note(name, (self._host, *given, *named.values()), result)
        _touched.note(result, (self, *args, *kwargs.values()), [self] if name in IN_PLACE else outputs(kwargs))
        return wrap(result, self, *args, *kwargs.values())

    method.__name__ = name
    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift",
              "matmul", "divmod"):
    setattr(ndarray, f"__{_name}__", _binary(f"__{_name}__"))
    setattr(ndarray, f"__r{_name}__", _binary(f"__r{_name}__"))
    if _name != "divmod":
        setattr(ndarray, f"__i{_name}__", _binary(f"__i{_name}__"))
for _name in ("lt", "le", "eq", "ne", "gt", "ge"):
    setattr(ndarray, f"__{_name}__", _binary(f"__{_name}__"))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(ndarray, f"__{_name}__", _unary(f"__{_name}__"))
for _name in ("all any argmax argmin argpartition argsort astype choose clip conj conjugate copy cumprod cumsum "
              "diagonal dot fill flatten max mean min nonzero partition prod ptp put ravel repeat reshape round sort "
              "squeeze std sum swapaxes take trace transpose var view compress searchsorted").split():
    if _name not in ("searchsorted", "ptp"):  # not methods of CuPy's, or of NumPy's no more
        setattr(ndarray, _name, _method(_name))
