"""The golden traces that ship: whole trainings of tiny models, in float32 and in float64."""

from functools import lru_cache
from pathlib import Path

from refimpl.conformance.traces.format import PRECISIONS, Trace, read_trace

FOLDER = Path(__file__).parent / "golden"
NAMES = tuple(sorted({path.name.partition("-")[0] for path in FOLDER.glob("*.json")}))
"""Those that are there; this package is used without the models, too."""


def golden_path(name: str, precision: str) -> Path:
    """Return where a golden trace lies, without suffix. Raises ValueError for one that does not exist."""
    for what, value, values in (("golden trace", name, NAMES), ("precision", precision, PRECISIONS)):
        if value not in values:
            raise ValueError(f"no {what} {value!r}; there are {', '.join(values)}")
    return FOLDER / f"{name}-{precision}"


@lru_cache(maxsize=None)
def golden(name: str, precision: str) -> Trace:
    """Return a golden trace, its hashes verified. float32: canonical bits.  float64: the truth. Do not write to it."""
    return read_trace(golden_path(name, precision).with_name(f"{name}-{precision}.json"))
