"""Before a training the ranks compare what they are about to train, and stop if they differ (docs/design.md, I5).

They compare options and descriptions, and samples of initial values, which must depend only on (seed, name, place).
"""

import hashlib
import json
import re
from dataclasses import is_dataclass

import numpy as np

from refimpl.transport import CollectiveError, Communicator
from refimpl.words import ranks_named

PIECES = 8
ELEMENTS = 4096
"""PIECES pieces of each variable are compared: both ends, and places evenly between. A piece has at most ELEMENTS
elements, and whole rows if two fit. So the time does not depend on the size. Other elements are not compared.
"""


def agree_on(comm: Communicator, facts: dict):
    """Raise CollectiveError on every rank unless all ranks have equal facts; it names those that differ. Collective.

    facts: name -> JSON value (options, shapes, fingerprints, versions).
    """
    text, error = "", None
    try:
        text = json.dumps(facts, sort_keys=True)
    except (TypeError, ValueError) as problem:
        error = TypeError(f"what describes the model and data must be plain JSON values: {problem}")
    comm.agree(error)
    everyone = [json.loads(text) for text in comm.share_text(text)]
    complaints = []
    for name in dict.fromkeys(name for theirs in everyone for name in theirs):
        values = [json.dumps(theirs.get(name, "missing"), sort_keys=True) for theirs in everyone]
        said = {value: [rank for rank, other in enumerate(values) if other == value] for value in values}
        if len(said) > 1:
            told = [f"{_short(value)} on {ranks_named(ranks, ' ')}" for value, ranks in said.items()]
            complaints.append(f"{name} is {', '.join(told)}")
    if complaints:
        raise CollectiveError("the ranks disagree: " + "; ".join(complaints)
                              + ". Start every rank with the same command, code and data, and let each "
                              "draw from the same seed")


def _short(value: str) -> str:
    """Return a value for a message: the first digits of a hash, a string without quotes, the hash of a long text."""
    text = value.strip('"')
    if len(text) > 400:
        text = hashlib.sha256(text.encode()).hexdigest()
    return text[:12] + "…" if re.fullmatch("[0-9a-f]{64}", text) else text


def describe_variable(variable) -> str:
    """Return as text all properties of a variable that affect the numbers or messages of a training. Local."""
    words = [f"{variable.dtype} {variable.shape}"]
    words += [flag for flag in ("sparse", "statistic") if getattr(variable, flag)]
    words += [f"not {flag}" for flag in ("decays", "clipped") if not getattr(variable, flag)]
    words += [f"{number}={value}" for number in ("learning_rate", "weight_decay")
              if (value := getattr(variable, number)) is not None]
    words += [f"in {variable.blocks} blocks"] * (variable.blocks > 1)
    start = variable.initial  # a user's own may print its address: then its kind must do
    return " ".join(words + [f"from {start if is_dataclass(start) else type(start).__name__}"])


def initial_facts(variables, seed: int) -> dict[str, str]:
    """Return fact -> SHA-256 of a sample of each variable's initial values. All ranks must have the same. Local.

    Raises ValueError for values that are not finite, or that depend on more than seed, name and place.
    """
    return {f"the beginning of variable {v.name}": _looked_at(v, seed) for v in variables if v.size}


def _looked_at(variable, seed) -> str:
    """Return the SHA-256 of the sample. Each piece is computed twice, and its second half once more by itself."""
    total = hashlib.sha256()
    for start, middle, stop in _pieces(variable):
        values, again = _elements(variable, seed, start, stop), _elements(variable, seed, start, stop)
        half = _elements(variable, seed, middle, stop)
        if values.tobytes() != again.tobytes() or values[middle - start:].tobytes() != half.tobytes():
            raise ValueError(f"the initial values of {variable.name!r} differ when they are asked for again, or in "
                             "parts: elements(key, start, count) must depend only on its arguments, as Uniform's does "
                             "(models/variable.py)")
        if not np.isfinite(values).all():
            raise ValueError(f"the initial values of {variable.name!r} are not finite (NaN or infinity): "
                             "look at its initial")
        total.update(values.tobytes())
    return total.hexdigest()


def _pieces(variable) -> list[tuple[int, int, int]]:
    """Return (start, middle, stop) of each piece, in elements. If two rows fit in a piece, it is cut between rows."""
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
                         "Constant and Uniform have it") from problem
