"""The places of the elements of largest size."""

from kernels.largest import definition, fast


def largest(values, count):
    """Return the places of the ``count`` largest |values|, (n,) float32 NumPy; see ``definition``. Local."""
    return fast.largest(values, count)


__all__ = ["definition", "largest"]
