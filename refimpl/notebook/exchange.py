"""Values between a notebook and its ranks, through files: JSON, and .npy for arrays. Nothing is pickled."""

import json
from pathlib import Path

import numpy as np


def write_values(folder: Path, values: dict) -> None:
    """Write named values into a folder. Local.

    Raises TypeError unless a value is an array of numbers or plain data (numbers, text, None, lists, dicts of text).
    """
    plain = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            np.save(folder / f"{name}.npy", value, allow_pickle=False)
            continue
        try:
            plain[name] = json.loads(json.dumps(value, default=_number))
        except (TypeError, ValueError) as problem:
            raise TypeError(f"{name} is {type(value).__name__}, which does not travel between ranks and notebook: give "
                            f"numbers, text, lists, dicts or arrays of numbers ({problem})") from problem
    (folder / "values.json").write_text(json.dumps(plain))


def read_values(folder: Path) -> dict:
    """Return the values that ``write_values`` wrote into a folder; an empty dict if there are none. Local."""
    path = folder / "values.json"
    plain = json.loads(path.read_text()) if path.exists() else {}
    return {**plain, **{file.stem: np.load(file, allow_pickle=False) for file in sorted(folder.glob("*.npy"))}}


def _number(value):
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no plain data")
