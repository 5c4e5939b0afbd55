"""Ranks that would not train the same thing must not train at all (DESIGN, I5)."""

import json
import re

from refimpl.collectives.wire import CollectiveError, Wire


def agree_on(wire: Wire, facts: dict):
    """Raise CollectiveError on every rank, naming each fact that differs and who says what, unless all say the same.

    facts: name -> JSON value (options, shapes, fingerprints, versions). Collective.
    """
    everyone = [json.loads(text) for text in wire.share_text(json.dumps(facts, sort_keys=True))]
    complaints = []
    for name in dict.fromkeys(name for theirs in everyone for name in theirs):
        values = [json.dumps(theirs.get(name, "missing"), sort_keys=True) for theirs in everyone]
        said = {value: [str(rank) for rank, other in enumerate(values) if other == value] for value in values}
        if len(said) > 1:
            complaints.append(f"{name} is " + ", ".join(
                f"{_short(value)} on {'rank' if len(ranks) == 1 else 'ranks'} {' '.join(ranks)}" for value, ranks in said.items()))
    if complaints:
        raise CollectiveError("the ranks disagree: " + "; ".join(complaints)
                              + ". Start every rank with the same command, code and data")


def _short(value: str) -> str:
    """A hash is told by its first digits; a string without its quotes."""
    text = value.strip('"')
    return text[:12] + "…" if re.fullmatch("[0-9a-f]{64}", text) else text
