"""The places of the elements of largest size."""

from kernels.arrays import is_numpy
from kernels.largest import definition, fast


def largest(values, count):
    """Return the places of the ``count`` largest |values|, (n,) float32; see ``definition``, which CuPy runs. Local."""
    return (fast if is_numpy(values) else definition).largest(values, count)


__all__ = ["definition", "largest"]
