"""Whether initial values are functions of (seed, name, place) alone: else each rank would begin elsewhere, unseen."""

import hashlib

import numpy as np

PIECES = 8
ELEMENTS = 4096
"""Of a variable so many pieces are looked at, at both ends and evenly between, each of at most so many elements: whole
rows where two fit. Whatever the variable's size, no more is made; what lies between the pieces is not seen."""


def initial_facts(variables, seed: int) -> dict[str, str]:
    """Return what all ranks must say alike of initial values: fact -> SHA-256 of a sample of a variable. Local.

    Raises ValueError for values that are not finite, or that depend on more than seed, name and place.
    """
    return {f"the beginning of variable {v.name}": _looked_at(v, seed) for v in variables if v.size}


def _looked_at(variable, seed) -> str:
    """Return the SHA-256 of the sample, each piece asked for twice, and its second half once more, alone."""
    total = hashlib.sha256()
    for start, middle, stop in _pieces(variable):
        values, again = _elements(variable, seed, start, stop), _elements(variable, seed, start, stop)
        half = _elements(variable, seed, middle, stop)
        if values.tobytes() != again.tobytes() or values[middle - start:].tobytes() != half.tobytes():
            raise ValueError(f"the initial values of {variable.name!r} are others when they are asked for again, or in "
                             "parts: let elements(key, start, count) be a function of these alone, as Uniform's is "
                             "(models/variable.py)")
        if not np.isfinite(values).all():
            raise ValueError(f"the initial values of {variable.name!r} are not finite (NaN or infinity)")
        total.update(values.tobytes())
    return total.hexdigest()


def _pieces(variable) -> list[tuple[int, int, int]]:
    """Return (start, middle, stop) of the pieces, in elements; all three between rows where two rows fit in a piece."""
    rows = variable.shape[0] if variable.shape else 1
    unit = variable.size // rows
    if 2 * unit > ELEMENTS and variable.size > ELEMENTS:
        unit = 1
    units = variable.size // unit
    each = min(units, ELEMENTS // unit)
    starts = sorted({number * (units - each) // (PIECES - 1) for number in range(PIECES)})
    return [tuple(unit * place for place in (start, start + each // 2, start + each)) for start in starts]


def _elements(variable, seed, start, stop):
    try:
        return variable.initial_elements(seed, start, stop - start).astype(variable.dtype)
    except Exception as problem:
        raise ValueError(f"the initial values of {variable.name!r} cannot be made ({type(problem).__name__}: "
                         f"{problem}): its initial needs elements(key, start, count), which returns (count,) numbers; "
                         "Constant and Uniform are such") from problem
