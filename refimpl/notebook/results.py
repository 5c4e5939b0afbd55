"""Stored results: what a notebook measured on the emulated cluster, for kernels that cannot emulate one."""

import os
import time
from pathlib import Path
from typing import TypedDict

from refimpl.json_file import read_json
from refimpl.training.run.files import write_json

STORE = "REFIMPL_STORE_RESULTS"
"""Set in the environment by ``python -m refimpl.notebook store``: what the cluster measures is stored."""
RESULTS = Path("results")
"""Where stored results lie, beside the notebooks."""


class _Stored(TypedDict):
    measured: str


def measured_on(where: str) -> str:
    """Return when and on what something is measured, in words. Local."""
    return f"{time.strftime('%Y-%m-%d')}, {where} on {os.cpu_count()} cores"


def store_result(name: str, where: str, **found) -> None:
    """Write results/NAME.json, where notebooks are being stored; else do nothing. found: plain data. Local."""
    if os.environ.get(STORE):
        RESULTS.mkdir(exist_ok=True)
        write_json(RESULTS / f"{name}.json", {"measured": measured_on(where), **found})


def kept_result(name: str) -> dict | None:
    """Return the stored result of a name, and say that it is one; None where notebooks are being stored, or none is.
    Local."""
    path = RESULTS / f"{name}.json"
    if os.environ.get(STORE) or not name or not path.exists():
        return None
    return _read(path, "Without \"keep\" it is measured anew.")


def load_result(name: str, problem: Exception) -> dict:
    """Return the stored result of a name, and say that it is one; raise ``problem`` if there is none. Local."""
    path = RESULTS / f"{name}.json"
    if not name or not path.exists():
        raise problem
    return _read(path, f"This machine has no emulated cluster ({problem}).")


def _read(path: Path, why: str) -> dict:
    kept = read_json(path, _Stored, what="a stored result", remedy="store the notebooks again on a cluster")
    print(f"{why} Shown is a stored result: {kept['measured']}.")
    return kept
