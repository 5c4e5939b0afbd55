"""Make the golden traces again, with the product's own models, kernels and trainer. One rank."""

from pathlib import Path

from refimpl.conformance.traces.format import PRECISIONS, write_trace
from refimpl.conformance.traces.golden import FOLDER, golden, golden_path


def regenerate(names, folder=FOLDER) -> list[Path]:
    """Record the named trainings in both precisions and write them to a folder; return the files. Local.

    Raises ValueError for a name that does not exist.
    """
    from refimpl.conformance.traces.recipes import RECIPES
    from refimpl.conformance.traces.record import record

    paths = {(name, precision): golden_path(name, precision) for name in names for precision in PRECISIONS}
    written: list[Path] = []
    for (name, precision), path in paths.items():
        written += write_trace(record(name, RECIPES[name], precision), Path(folder) / path.name)
    golden.cache_clear()
    return written
