"""Kernels made of Python or of CUDA source. Of source, the stand-in runs none."""

import functools

from cupy._array import SCALARS, ndarray


class fuse:
    """``@cupy.fuse()``: the function's own lines, on device arrays and scalars only, as CuPy allows."""

    def __new__(cls, *args, **kwargs):
        if args and callable(args[0]):
            return cls._fused(args[0])
        return cls._fused

    @staticmethod
    def _fused(function):
        @functools.wraps(function)
        def call(*args):
            for one in args:
                if not (isinstance(one, (ndarray, *SCALARS)) or one is None):
                    raise TypeError(f"Unsupported type {type(one)}")
            return function(*args)

        return call


class _Source:
    """CUDA source. ``substitute``: set it to a Python function (called with the same arguments) to run in its place."""

    substitute = None

    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs
        self.name = next((one for one in (kwargs.get("name"), *args[::-1]) if isinstance(one, str)), "")

    def __call__(self, *args, **kwargs):
        if self.substitute is None:
            raise NotImplementedError(f"the stand-in runs no CUDA source ({self.name}); set .substitute")
        return self.substitute(*args, **kwargs)


class ElementwiseKernel(_Source):
    """ElementwiseKernel(in_params, out_params, operation, name, ...)."""


class ReductionKernel(_Source):
    """ReductionKernel(in_params, out_params, map, reduce, post, identity, name, ...)."""


class RawKernel(_Source):
    """RawKernel(code, name, options)(grid, block, args)."""


class RawModule(_Source):
    """RawModule(code=..., options=...).get_function(name)."""

    def get_function(self, name):
        return RawKernel("", name)
