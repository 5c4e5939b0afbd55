"""Stored results: what a notebook measured on the emulated cluster, for kernels that cannot emulate one."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from refimpl.experiments.cluster import ClusterError
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


def measured_or_stored(name: str, keep: bool, where: str, measure: Callable[[], dict]) -> dict:
    """Return what ``measure`` measures on a cluster, or the stored result results/NAME.json, and say so then. Local.

    The stored one is shown where no cluster can be emulated; with ``keep`` wherever there is one.  measure: returns
    plain data, which are written to the file while notebooks are being stored: they are always measured then.
    where: on what it is measured, in words.  name: "" for nothing stored.
    Raises ClusterError without a cluster and a stored result.
    """
    path, storing = RESULTS / f"{name}.json", name and os.environ.get(STORE)
    why = 'Without "keep" it is measured anew.'
    if storing or not (keep and path.exists()):
        try:
            found = {"measured": measured_on(where), **measure()}
        except ClusterError as problem:
            if not path.exists():
                raise
            why = f"This machine has no emulated cluster ({problem})."
        else:
            if storing:
                RESULTS.mkdir(exist_ok=True)
                write_json(path, found)
            return found
    kept = read_json(path, _Stored, what="a stored result", remedy="store the notebooks again on a cluster")
    print(f"{why} Shown is a stored result: {kept['measured']}.")
    return kept
