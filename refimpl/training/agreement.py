"""Ranks that would not train the same thing must not train at all (docs/design.md, I5).

They compare what describes a training, and samples of initial values: those must be functions of (seed, name, place).
"""

import hashlib
import json
import re
from dataclasses import is_dataclass

import numpy as np

from refimpl.transport import CollectiveError, Communicator

PIECES = 8
ELEMENTS = 4096
"""PIECES pieces of a variable are compared, at both ends and evenly between, each of at most ELEMENTS elements: whole
rows if two fit. The effort does not grow with the variable. What lies between the pieces is not seen."""


def agree_on(comm: Communicator, facts: dict):
    """Raise CollectiveError on every rank, naming each fact that differs and who says what, unless all say the same.

    facts: name -> JSON value (options, shapes, fingerprints, versions). Collective.
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
        said = {value: [str(rank) for rank, other in enumerate(values) if other == value] for value in values}
        if len(said) > 1:
            told = [f"{_short(value)} on {'rank' if len(ranks) == 1 else 'ranks'} {' '.join(ranks)}"
                    for value, ranks in said.items()]
            complaints.append(f"{name} is {', '.join(told)}")
    if complaints:
        raise CollectiveError("the ranks disagree: " + "; ".join(complaints)
                              + ". Start every rank with the same command, code and data, and let each "
                              "draw from the same seed")


def _short(value: str) -> str:
    """A hash is told by its first digits; a string without its quotes; what is too long to be read by its own hash."""
    text = value.strip('"')
    if len(text) > 400:
        text = hashlib.sha256(text.encode()).hexdigest()
    return text[:12] + "…" if re.fullmatch("[0-9a-f]{64}", text) else text


def describe_variable(variable) -> str:
    """Return all of a variable that the numbers or messages of a training depend on, as text. Local."""
    words = [f"{variable.dtype} {variable.shape}"]
    words += [flag for flag in ("sparse", "statistic") if getattr(variable, flag)]
    words += [f"not {flag}" for flag in ("decays", "clipped") if not getattr(variable, flag)]
    words += [f"{number}={value}" for number in ("learning_rate", "weight_decay")
              if (value := getattr(variable, number)) is not None]
    words += [f"in {variable.blocks} blocks"] * (variable.blocks > 1)
    start = variable.initial  # a user's own may print its address: then its kind must do
    return " ".join(words + [f"from {start if is_dataclass(start) else type(start).__name__}"])


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
