"""Whether initial values are functions of (seed, name, place) alone: else each rank would begin elsewhere, unseen."""

import hashlib

import numpy as np

ELEMENTS = 4096
"""At most so many elements, but at least two rows, are looked at at each end of a variable."""


def initial_facts(variables, seed: int) -> dict[str, str]:
    """Return what all ranks must say alike of initial values: fact -> SHA-256 of both ends of a variable. Local.

    Raises ValueError for values that are not finite, or that depend on more than seed, name and place.
    """
    return {f"the beginning of variable {v.name}": _looked_at(v, seed) for v in variables if v.size}


def _looked_at(variable, seed) -> str:
    if not variable.shape:
        first, again = _rows(variable, seed), _rows(variable, seed)
        return _digest(variable, [(first, again)])
    rows = variable.shape[0]
    some = min(rows, max(2, ELEMENTS // (variable.size // rows)))
    ends = [(0, some), (rows - some, rows)]
    looks = [(_rows(variable, seed, *end), _rows(variable, seed, *end)) for end in ends]
    one_by_one = [(whole[-1:], _rows(variable, seed, stop - 1, stop)) for (whole, _), (_, stop) in zip(looks, ends)]
    return _digest(variable, looks + one_by_one)


def _rows(variable, seed, start=0, stop=None):
    try:
        return variable.initial_rows(seed, start, stop)
    except Exception as problem:
        raise ValueError(f"the initial values of {variable.name!r} cannot be made ({type(problem).__name__}: "
                         f"{problem}): its initial needs elements(key, start, count), which returns (count,) numbers; "
                         "Constant and Uniform are such") from problem


def _digest(variable, pairs) -> str:
    total = hashlib.sha256()
    for one, other in pairs:
        if one.tobytes() != other.tobytes():
            raise ValueError(f"the initial values of {variable.name!r} are others when they are asked for again, or in "
                             "parts: let elements(key, start, count) be a function of these alone, as Uniform's is "
                             "(models/variable.py)")
        if not np.isfinite(one).all():
            raise ValueError(f"the initial values of {variable.name!r} are not finite (NaN or infinity)")
        total.update(one.tobytes())
    return total.hexdigest()
