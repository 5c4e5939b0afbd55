"""Checks of the sizes of models and data. An error names the size, its value and the allowed values."""

from numbers import Integral, Real

MOST_LAYERS = 1000
"""The most layers of a model. With more, a step would take seconds only to handle their variables."""

ADDRESSES = 2**63
"""The number of bytes that 64-bit addresses can count."""


def require_positive(**values):
    """Raise ValueError, which names the first wrong size, unless every value is an integer above zero. Local."""
    for name, value in values.items():
        if not _is_positive(value):
            raise ValueError(f"{name} must be a positive integer, not {value!r}")


def require_all_positive(**values):
    """Raise ValueError for the first value that is not a tuple or list of integers above zero. Local."""
    for name, value in values.items():
        if not isinstance(value, (tuple, list)) or not all(map(_is_positive, value)):
            raise ValueError(f"{name} must be positive integers, not {value!r}")


def _is_positive(value) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and value > 0


def require_flag(**values):
    """Raise ValueError for the first value that is not True, False, 1 or 0. Local."""
    for name, value in values.items():
        if not isinstance(value, Integral) or value not in (0, 1):
            raise ValueError(f"{name} must be 1 (yes) or 0 (no), not {value!r}")


def require_kept(keep):
    """Raise ValueError unless ``keep`` is above 0 and at most 1. Local."""
    if not isinstance(keep, Real) or not 0 < keep <= 1:
        raise ValueError(f"keep={keep!r}: a probability above 0, at most 1")


def require_few(layers: int, said: str):
    """Raise ValueError for more than MOST_LAYERS layers. said: the size's name and value, for the message. Local."""
    if layers > MOST_LAYERS:
        raise ValueError(f"{said}: that is {layers} layers; give at most {MOST_LAYERS}: every step handles each of "
                         "their variables")


def require_addressable(variables):
    """Raise ValueError for the first variable that is too large for any memory. Local."""
    for v in variables:
        if v.nbytes >= ADDRESSES:
            raise ValueError(f"variable {v.name!r} of shape {v.shape} has {v.nbytes:.3g} bytes, and no array has more "
                             f"than {ADDRESSES:.3g}: choose smaller sizes")
