"""Stored results: measurements of notebooks on the emulated cluster, for machines that cannot emulate one."""

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
"""The folder of stored results, beside the notebooks."""


class _Stored(TypedDict):
    measured: str


def measured_on(where: str) -> str:
    """Return the date and the machine of a measurement, in words. Local."""
    return f"{time.strftime('%Y-%m-%d')}, {where} on {os.cpu_count()} cores"


def measured_or_stored(name: str, keep: bool, where: str, measure: Callable[[], dict]) -> dict:
    """Return the result of ``measure`` on a cluster, or the stored results/NAME.json with a printed note. Local.

    The stored result is used if no cluster can be emulated; with ``keep`` whenever it exists.  measure: returns plain
    data. While notebooks are being stored it is always called, and its data are written to the file.
    where: on what it is measured, in words.  name: "" if nothing is stored.
    Raises ClusterError without a cluster and a stored result.
    """
    path, storing = RESULTS / f"{name}.json", name and os.environ.get(STORE)
    why = 'Without "keep" the cell measures anew.'
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
    print(f"This is a stored result: {kept['measured']}. {why}")
    return kept
