"""Sizes and times in units: 64 KiB, 16MiB, 50us."""

import math
import re

BYTES = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def parse(text: str, units: dict, what: str) -> float:
    """Return the number for a text such as 16MiB or 50us. what: its name for the error message. Local.

    Raises ValueError, with ``what`` and the known units, for any other text.
    """
    match = re.fullmatch(r"([0-9.]+(?:e-?[0-9]+)?)\s*([a-z]*)", text.strip().lower())
    try:
        number = float(match[1]) * units[match[2]]
    except (TypeError, ValueError, KeyError):
        number = math.inf
    if number == math.inf:
        raise ValueError(f"{what} {text!r}: give a number and one of {', '.join(filter(None, units))}")
    return number


def size_name(nbytes: int) -> str:
    """Return a size as text with a unit: 64 KiB, 1 MiB, 2.5 GiB. Local; ``parse`` reads it."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= scale:
            return f"{nbytes / scale:.4g} {unit}"
    return f"{nbytes} B"
