"""The places of the elements of largest size. NumPy only."""

from kernels.largest import definition
from kernels.largest.fast import largest

__all__ = ["definition", "largest"]
