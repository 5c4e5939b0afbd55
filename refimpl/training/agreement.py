"""Ranks that would not train the same thing must not train at all (docs/design.md, I5)."""

import hashlib
import json
import re
from dataclasses import is_dataclass

from refimpl.transport import CollectiveError, Communicator


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
    words += [f"in {variable.blocks} blocks"] * (variable.blocks > 1)
    start = variable.initial  # a user's own may print its address: then its kind must do
    return " ".join(words + [f"from {start if is_dataclass(start) else type(start).__name__}"])
