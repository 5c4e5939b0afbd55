"""Ranks that would not train the same thing must not train at all (DESIGN, I5)."""

import json

from refimpl.collectives.wire import CollectiveError, Wire


def agree_on(wire: Wire, facts: dict):
    """Raise CollectiveError on every rank, naming each fact that differs and who says what, unless all say the same.

    facts: name -> JSON value (options, shapes, fingerprints, versions). Collective.
    """
    everyone = [json.loads(text) for text in wire.share_text(json.dumps(facts, sort_keys=True))]
    complaints = []
    for name in dict.fromkeys(name for theirs in everyone for name in theirs):
        said: dict[str, list[str]] = {}
        for rank, theirs in enumerate(everyone):
            said.setdefault(_short(theirs.get(name, "missing")), []).append(str(rank))
        if len(said) > 1:
            complaints.append(f"{name} is " + ", ".join(
                f"{value} on {'rank' if len(ranks) == 1 else 'ranks'} {' '.join(ranks)}" for value, ranks in said.items()))
    if complaints:
        raise CollectiveError("the ranks disagree: " + "; ".join(complaints)
                              + ". Start every rank with the same command, code and data")


def _short(value) -> str:
    """Values are compared as they are printed; a hash is printed by its first digits."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text[:12] + "…" if len(text) == 64 and " " not in text else text
