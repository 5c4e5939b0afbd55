"""One rank's answer as files: arrays in an .npz without pickle, the rest in a .json beside it.

An array's name there is "STEP ROLE NAME", ROLE being ids, rows or array.
"""

import json
import os
from pathlib import Path

import numpy as np

from refimpl.conformance.case import Rows
from refimpl.conformance.target import Answer


def save(folder: Path, number: int, rank: int, answer: Answer):
    """Write an answer; the JSON appears last, so that an answer with one is whole. Local."""
    arrays = {}
    for step, parts in enumerate(answer.steps):
        for name, part in parts.items():
            for role, array in part._asdict().items() if isinstance(part, Rows) else [("array", part)]:
                arrays[f"{step} {role} {name}"] = array
    stem = folder / f"{number}-{rank}"
    np.savez(stem.with_suffix(".npz"), **arrays)
    temporary = stem.with_suffix(".tmp")
    temporary.write_text(json.dumps({"error": answer.error, "skipped": answer.skipped, "steps": len(answer.steps)}))
    os.replace(temporary, stem.with_suffix(".json"))


def read(folder: Path, number: int, rank: int) -> Answer | None:
    """Return an answer, None if the rank never gave one. Local."""
    stem = folder / f"{number}-{rank}"
    if not stem.with_suffix(".json").exists():
        return None
    what = json.loads(stem.with_suffix(".json").read_text())
    answer = Answer([{} for _ in range(what["steps"])], what["error"], what["skipped"])
    with np.load(stem.with_suffix(".npz"), allow_pickle=False) as arrays:
        for key, array in arrays.items():
            step, role, name = key.split(" ", 2)
            if role != "rows":
                part = Rows(array, arrays[f"{step} rows {name}"]) if role == "ids" else array
                answer.steps[int(step)][name] = part
    return answer
