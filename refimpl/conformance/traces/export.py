"""Write a golden trace as files that any language reads: all of it, or what one begins from at a stage."""

from pathlib import Path

from refimpl.conformance.traces.format import JOINS, write_trace
from refimpl.conformance.traces.golden import golden

BEGINS_FROM = {"model": ("inputs", "start"), "aggregate": ("local", "start"), "update": ("aggregated", "start")}
"""Where an implementation joins -> what it is given."""


def export_trace(name: str, path, stage: str | None = None, precision: str = "float32") -> tuple[Path, Path]:
    """Write PATH.json and PATH.safetensors; return them. Local.

    stage: model, aggregate or update: what an implementation that joins there begins from; None: everything.
    Raises ValueError for a name, stage or precision that does not exist.
    """
    trace = golden(name, precision)
    if stage is not None:
        if stage not in JOINS:
            raise ValueError(f"no stage {stage!r} to join at; there are {', '.join(JOINS)}")
        trace = trace.only(BEGINS_FROM[stage])
        trace.head["joined_at"] = stage
    path = Path(path)
    return write_trace(trace, path.with_name(path.name.removesuffix(".json").removesuffix(".safetensors")))
