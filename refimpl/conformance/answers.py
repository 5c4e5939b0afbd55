"""One rank's answer as files: arrays in an .npz without pickle, the rest in a .json beside it."""

import json
import os
from pathlib import Path

import numpy as np

from refimpl.conformance.case import Rows
from refimpl.conformance.target import Answer


def save(folder: Path, number: int, rank: int, answer: Answer):
    """Write an answer; the JSON appears last, so that an answer with one is whole. Local."""
    arrays, places = {}, []
    for step, parts in enumerate(answer.steps):
        for name, part in parts.items():
            for role, array in (("ids", part.ids), ("rows", part.rows)) if isinstance(part, Rows) else (("", part),):
                arrays[f"a{len(places)}"] = array
                places.append([step, name, role])
    stem = folder / f"{number}-{rank}"
    np.savez(stem.with_suffix(".npz"), **arrays)
    text = json.dumps({"error": answer.error, "skipped": answer.skipped, "steps": len(answer.steps), "arrays": places})
    temporary = stem.with_suffix(".tmp")
    temporary.write_text(text)
    os.replace(temporary, stem.with_suffix(".json"))


def read(folder: Path, number: int, rank: int) -> Answer | None:
    """Return an answer, None if the rank never gave one. Local."""
    stem = folder / f"{number}-{rank}"
    if not stem.with_suffix(".json").exists():
        return None
    what = json.loads(stem.with_suffix(".json").read_text())
    answer = Answer([{} for _ in range(what["steps"])], what["error"], what["skipped"])
    halves: dict = {}
    with np.load(stem.with_suffix(".npz"), allow_pickle=False) as arrays:
        for i, (step, name, role) in enumerate(what["arrays"]):
            if role:
                halves.setdefault((step, name), {})[role] = arrays[f"a{i}"]
            else:
                answer.steps[step][name] = arrays[f"a{i}"]
    for (step, name), half in halves.items():
        answer.steps[step][name] = Rows(half["ids"], half["rows"])
    return answer
