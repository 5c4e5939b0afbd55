"""The golden traces that ship: whole trainings of tiny models, in float32 and in float64; exported as files, too."""

from functools import lru_cache
from pathlib import Path

from refimpl.conformance.traces.format import JOINS, PRECISIONS, Trace, read_trace, write_trace

FOLDER = Path(__file__).parent / "golden"
NAMES = tuple(sorted({path.name.partition("-")[0] for path in FOLDER.glob("*.json")}))
"""Those that are there; this package is used without the models, too."""


def golden_path(name: str, precision: str) -> Path:
    """Return the path of a golden trace without its suffix. Raises ValueError if there is no such trace."""
    for what, value, values in (("golden trace", name, NAMES), ("precision", precision, PRECISIONS)):
        if value not in values:
            raise ValueError(f"no {what} {value!r}; there are {', '.join(values)}")
    return FOLDER / f"{name}-{precision}"


@lru_cache(maxsize=None)
def golden(name: str, precision: str) -> Trace:
    """Return a golden trace, its hashes verified. float32: canonical bits.  float64: the truth. Do not write to it."""
    return read_trace(golden_path(name, precision).with_name(f"{name}-{precision}.json"))


def export_trace(name: str, path, stage: str | None = None, precision: str = "float32") -> tuple[Path, Path]:
    """Write PATH.json and PATH.safetensors; return them. Local.

    stage: model, aggregate or update: what an implementation that joins there begins from; None: everything.
    Raises ValueError for a name, stage or precision that does not exist.
    """
    trace = golden(name, precision)
    if stage is not None:
        if stage not in JOINS:
            raise ValueError(f"no stage {stage!r} to join at; there are {', '.join(JOINS)}")
        trace = trace.only((*(JOINS[stage][-1:] or ["inputs"]), "start"))
        trace.head["joined_at"] = stage
    path = Path(path)
    return write_trace(trace, path.with_name(path.name.removesuffix(".json").removesuffix(".safetensors")))
