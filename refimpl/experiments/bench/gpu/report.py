"""The report of ``bench gpu``, as JSON and as text: measurements, devices, versions."""

import datetime
import json
import platform
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from refimpl.experiments.bench.gpu.bounds import BoundsRow
from refimpl.json_file import read_json
from refimpl.training.run.files import write_json

PACKAGES = ("refimpl", "numpy", "numba", "cupy-cuda12x", "cupy-cuda13x", "nvidia-nccl-cu12", "nvidia-nccl-cu13",
            "torch", "mpi4py")
"""The packages on which the figures depend. The report has the versions of those that are installed."""

TEST_RUNS = ("serial", "1-ranks", "2-ranks", "3-ranks", "4-ranks")
"""The runs of ``make test-gpu``."""


def tests_run(directory) -> dict[str, dict]:
    """Return the results of ``make test-gpu`` in the report's directory: {run: {"passed": ..., "failed": ...}}. Local.

    A run without result has None.
    """
    found = {name: Path(directory) / f"tests-{name}.json" for name in TEST_RUNS}
    return {name: read_json(path, dict[str, int], what="counts of tests", remedy="run make test-gpu again")
            if path.exists() else None for name, path in found.items()}


def describe(result: dict) -> list[str]:
    """Return the report's lines below its table. Local."""
    lines = ["device: " + ", ".join(f"{name} {value}" for name, value in result["device"].items())]
    merged, copied = result["merge_bandwidth"], result["copy_bandwidth"]
    lines.append(f"row merge: {merged / 1e9:,.0f} GB/s, {merged / copied:.0%} of the GPU's copy bandwidth, "
                 f"{copied / 1e9:,.0f} GB/s (reach 50%)")
    lines += [str(BoundsRow(**row)) for row in result.get("bounds", ())]
    for model, phases in result.get("phases", {}).items():
        lines.append(f"{model.upper()} step, the host's time: " +
                     ", ".join(f"{phase} {seconds * 1e3:.1f} ms" for phase, seconds in phases.items()))
    between = result.get("allreduce", {})
    if "error" in between:
        lines.append(f"allreduce between two ranks failed: {between['error']}")
    for row in between.get("rows", ()):
        lines.append(f"allreduce, two ranks, {row['size']}: {row['name']} {row['seconds'] * 1e6:,.0f} us")
    if "transport" in between:
        lines.append(between["transport"])
    for name, counts in result.get("tests", {}).items():
        said = [f"{number} {what}" for what, number in (counts or {}).items() if number]
        lines.append(f"make test-gpu, {name}: {', '.join(said) or 'no report: not run, or ended before'}")
    return lines


def write(result: dict, table: list[tuple[str, ...]], directory) -> Path:
    """Write bench-gpu.json and bench-gpu.txt into a directory, and return it. table: lines of text cells. Local."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    command, versions = " ".join(["python", *sys.argv]), {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    about = {"date": datetime.date.today().isoformat(), "command": command, "versions": versions}
    result = {**result, "tests": tests_run(directory)}
    write_json(directory / "bench-gpu.json", {**about, **result})
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table]
    lines += ["", *describe(result), json.dumps(versions), f"{about['date']}: {command}"]
    (directory / "bench-gpu.txt").write_text("\n".join(lines) + "\n")
    return directory
