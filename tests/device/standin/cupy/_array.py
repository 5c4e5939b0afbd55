"""The stand-in's ndarray: NumPy's, behind a wall."""

import numpy as np

from cupy import _races, _touched, standin
from cupy.cuda import memory, queues

SCALARS = (bool, int, float, complex, np.generic)


class ndarray:
    """An array "on the device": made by ``cupy.empty`` and the like, or by ndarray(shape, dtype, memptr, ...)."""

    __slots__ = ("_host", "_block", "__weakref__")
    __array_priority__ = 100

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        dtype = np.dtype(dtype)
        if memptr is None:
            self._host = np.ndarray(shape, dtype, order=order)
            self._block = memory.Block(self._host.nbytes, owner=self._host)
            return
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        self._host = np.ndarray(shape, dtype, memptr.mem.buffer, memptr.offset, strides)
        self._block = memptr.mem

    # -- what it is ----------------------------------------------------------------------------------------------------
    shape = property(lambda self: self._host.shape, lambda self, shape: setattr(self._host, "shape", shape))
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    nbytes = property(lambda self: self._host.nbytes)
    itemsize = property(lambda self: self._host.itemsize)
    strides = property(lambda self: self._host.strides)
    flags = property(lambda self: Flags(self._host.flags))
    base = property(lambda self: None if self._host.base is None else self)
    data = property(lambda self: memory.MemoryPointer.of(self))
    device = property(lambda self: _current_device())
    T = property(lambda self: wrap(self._host.T, self))

    def __len__(self):
        if not self._host.ndim:
            raise TypeError("len() of unsized object")
        return len(self._host)

    def __repr__(self):
        return repr(self._host)

    def __str__(self):
        return str(self._host)

    def __format__(self, spec):
        self._number("format")
        return format(self._host, spec)

    __hash__ = None

    # -- to the host ---------------------------------------------------------------------------------------------------
    def get(self, stream=None, order="C", out=None, blocking=True):
        """Return a copy on the host."""
        standin.crossed("to_host", self.nbytes, f"get {self.dtype} {self.shape}")
        stream = _races.current() if stream is None else stream.ptr
        _races.reads(self, stream)
        if blocking:
            queues.finish(queues.of(stream))
            _races.host_knows(stream=stream)
        if out is None:
            return np.array(self._host, order=order, copy=True)
        if not isinstance(out, np.ndarray):
            raise TypeError(f"Only numpy.ndarray can be obtained from cupy.ndarray: {type(out)}")
        if out.dtype != self.dtype or out.shape != self.shape:
            raise ValueError(f"Shape or dtype mismatch: {self.dtype} {self.shape} into {out.dtype} {out.shape}")
        if blocking:
            out[...] = self._host
        else:
            queues.add(stream, queues.CopyToHost(out, self._host.copy()))
        return out

    def set(self, arr, stream=None):
        """Copy a NumPy array of the same shape and dtype to the device."""
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if self.dtype != arr.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if self.shape != arr.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        standin.crossed("to_device", arr.nbytes, f"set {arr.dtype} {arr.shape}")
        _races.writes(self, None if stream is None else stream.ptr)
        self._host[...] = arr

    def __dlpack__(self, **_):
        _races.reads(self)
        return self._host.__dlpack__()

    def __dlpack_device__(self):
        return self._host.__dlpack_device__()  # the host's: another library then takes it to be its own there

    def _number(self, what):
        standin.crossed("number", self.itemsize, what)
        return self._awaited()

    def _awaited(self):
        """What the host sees when it has waited for the current stream."""
        stream = _races.current()
        _races.reads(self, stream)
        queues.finish(queues.of(stream))
        _races.host_knows(stream=stream)
        return self._host

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. "
                        "Please use `.get()` to construct a NumPy array explicitly.")

    def __bool__(self):
        return bool(self._number("bool()"))

    def __int__(self):
        return int(self._number("int()"))

    def __float__(self):
        return float(self._number("float()"))

    def __complex__(self):
        return complex(self._number("complex()"))

    def __index__(self):
        return self._number("index").__index__()

    def item(self, *args):
        return self._number("item()").item(*args)

    def tolist(self):
        standin.crossed("number" if self.size <= 4 else "to_host", self.nbytes, "tolist()")
        return self._awaited().tolist()

    def tobytes(self, order="C"):
        standin.crossed("to_host", self.nbytes, "tobytes()")
        return self._awaited().tobytes(order)

    def __iter__(self):
        if not self._host.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self._host)))

    def __contains__(self, value):
        raise TypeError("membership would make the host wait; compare and use any()")

    def __reduce__(self):
        return _restored, (self.get(),)

    def __deepcopy__(self, memo):
        return self.copy()

    # -- indexing ------------------------------------------------------------------------------------------------------
    def __getitem__(self, index):
        found = self._host[_index(index, self.shape)]
        if isinstance(found, np.ndarray) and found.size and not np.may_share_memory(found, self._host):
            standin.launched("index", "getitem")
        _touched.note(found, (self, index))
        return wrap(found, self)

    def __setitem__(self, index, value):
        if type(index) is ndarray and index.dtype != bool and len(np.unique(index._host)) < index.size:
            raise AssertionError("an assignment to repeated indices has no order on a device: not the same bits twice")
        if isinstance(value, SCALARS) and value == 0:
            value = 0  # CuPy clears memory then, and -0.0 is lost
        standin.launched(*_writes(index, value))
        place = _index(index, self.shape, writes=True)
        _touched.note_items(self, index, place, value)
        with np.errstate(all="ignore"):
            self._host[place] = unwrap(value)

    # -- NumPy's own functions on device arrays are CuPy's -------------------------------------------------------------
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        import cupy

        ours = getattr(cupy, ufunc.__name__, None)
        if ours is None:
            return NotImplemented
        if "out" in kwargs:
            kwargs["out"] = kwargs["out"][0] if len(kwargs["out"]) == 1 else kwargs["out"]
            if isinstance(kwargs["out"], np.ndarray):
                raise TypeError("return arrays must be of ArrayType")  # host += device
        return (ours if method == "__call__" else getattr(ours, method))(*inputs, **kwargs)

    def __array_function__(self, func, types, args, kwargs):
        import cupy

        ours = getattr(cupy, func.__name__, None)
        if ours is None:
            return NotImplemented
        return ours(*args, **kwargs)


class Flags:
    """c_contiguous, f_contiguous, owndata; as attributes and as items."""

    def __init__(self, flags):
        self.c_contiguous, self.f_contiguous, self.owndata = flags.c_contiguous, flags.f_contiguous, flags.owndata

    def __getitem__(self, name):
        return getattr(self, name.lower())


def _current_device():
    from cupy import cuda

    return cuda.Device()


def _restored(host):
    from cupy._moves import array

    return array(host)


def flushed(result):
    """Replace float32 numbers below the least normal one by zero, as CuPy's own kernels do (-ftz=true)."""
    if isinstance(result, np.ndarray) and result.dtype == np.float32 and result.size:
        result[np.abs(result) < np.finfo(np.float32).smallest_normal] *= 0
    return result


def unwrap(value):
    """Return what NumPy is given for a device array or a scalar. Raises TypeError for a NumPy array."""
    if type(value) is ndarray:
        return value._host
    if value is None or isinstance(value, SCALARS):
        return value
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (list, tuple)):
        return type(value)(unwrap(one) for one in value)
    return value


def wrap(result, *sources):
    """Return a device array of NumPy's result: a view where it shares the memory of a source."""
    if isinstance(result, (tuple, list)):
        return type(result)(wrap(one, *sources) for one in result) if type(result) in (tuple, list) else \
            tuple(wrap(one, *sources) for one in result)
    if not isinstance(result, (np.ndarray, np.generic)):
        return result
    for source in sources:
        if type(source) is ndarray and source._host is result:
            return source
    host = result if isinstance(result, np.ndarray) else np.asarray(result)
    owner = _touched.owner_of(host)
    array = ndarray.__new__(ndarray)
    array._host = host
    for source in sources:
        if type(source) is ndarray and _touched.owner_of(source._host) is owner:
            array._block = source._block
            return array
    array._block = memory.Block(owner.nbytes, owner=owner)
    return array


def _index(index, shape, writes=False):
    """Return NumPy's index. A NumPy array in it would be sent without a word: refused. Masks make the host wait."""
    parts = index if isinstance(index, tuple) else (index,)
    for one in parts:
        if isinstance(one, np.ndarray):
            raise TypeError("a NumPy array as index of a device array is an unseen transfer; use cupy.asarray first")
        if isinstance(one, list):
            raise TypeError("a list as index of a device array is an unseen transfer; use cupy.asarray first")
        if type(one) is ndarray and one.dtype == bool and not writes:
            standin.crossed("number", 8, "how many a mask keeps")
    return tuple(unwrap(one) for one in parts) if isinstance(index, tuple) else unwrap(index)


def _writes(index, value):
    """Return what kind of launch an assignment is."""
    if any(type(one) is ndarray for one in (index if isinstance(index, tuple) else (index,))):
        return "index", "setitem"
    return ("copy" if type(value) is ndarray else "fill"), "setitem"


def outputs(kwargs) -> list:
    out = kwargs.get("out")
    return [one for one in (out if isinstance(out, tuple) else (out,)) if type(one) is ndarray]


from cupy import _operators  # noqa: E402, F401
