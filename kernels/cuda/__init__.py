"""Kernels for a GPU: bodies in Python, compiled by Numba, launched by CuPy. Their tests need no GPU."""

from kernels.cuda.kernel import each_element, each_row, helper, scalar
from kernels.cuda.many import each_of_many

__all__ = ["each_element", "each_of_many", "each_row", "helper", "scalar"]
