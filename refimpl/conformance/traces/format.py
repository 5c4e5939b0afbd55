"""A trace on disk: NAME.safetensors holds the arrays, NAME.json says what each is, with its SHA-256.

The manifest, as plain JSON:

    {"format": 1, "trace": "lm", "edition": "4f1c…", "precision": "float32", "joined_at": "model",
     "semantics": {…}, "arrays": {KEY: {"stage": "local", "step": 2, "microbatch": 1, "variable": "embedding",
                                        "part": "rows", "dtype": "float32", "shape": [4, 8], "sha256": "…"}, …}}

KEY is the array's name in the safetensors file and means nothing else. SHA-256 is of the array's bytes as they lie in
that file (C order, little-endian). Golden traces also have ``training``, ``variables`` and ``command``.
"""

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypedDict

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from refimpl.conformance.case import Rows
from refimpl.conformance.semantics import Semantics
from refimpl.json_file import check_plain, read_json, shaped

FORMAT = 1
REMEDY = "write the trace again, or give another"

STAGES = {
    "inputs": "what a microbatch is computed from: samples, inputs, targets, weights, candidates",
    "start": "parameters and optimizer state before the first step",
    "carried": "state that the model carries into a microbatch from the step before",
    "local": "a microbatch's own gradients, before they meet others; rows that share an id added",
    "aggregated": "the gradients of the whole step, before they are clipped",
    "metrics": "loss, and norm of the aggregated gradient",
    "state": "optimizer state after the step",
    "parameters": "parameters after the step",
}
"""What a trace may hold, in the order in which a step makes it."""
PRECISIONS = ("float32", "float64")
JOINS = {"model": (), "aggregate": ("local",), "update": ("local", "aggregated")}
"""Where an implementation joins -> the stages before it: it begins from our numbers of the last one, or our inputs."""
MOST_ARRAYS = 4 << 30
"""Bytes of a trace's arrays: ours have less than 2 MB."""


class ArrayEntry(Struct):
    """What a manifest says of an array: where it belongs, and what it is."""

    stage: Literal[*STAGES]
    step: int | None
    microbatch: int | None
    variable: str
    part: str
    dtype: str
    shape: list[int]
    sha256: str

    @property
    def place(self) -> tuple:
        """What ``Trace.arrays`` has it under."""
        return self.stage, self.step, self.microbatch, self.variable, self.part


class Head(TypedDict):
    """What every manifest has, beside its arrays."""

    format: int
    trace: str
    edition: str
    precision: Literal[*PRECISIONS]
    joined_at: Literal[*JOINS]
    semantics: dict
    arrays: dict[str, dict]


@dataclass
class Trace:
    """Head of the manifest, and (stage, step, microbatch, variable, part) -> array. step, microbatch: None if none."""

    head: dict
    arrays: dict[tuple, np.ndarray] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The golden training that it is of: lm, cnn."""
        return self.head["trace"]

    @property
    def precision(self) -> str:
        """float32 or float64."""
        return self.head["precision"]

    @property
    def joined_at(self) -> str:
        """The stage at which it joined: one of JOINS."""
        return self.head["joined_at"]

    @property
    def semantics(self) -> Semantics:
        """The manifest of the implementation that made it."""
        return Semantics.from_json(self.head["semantics"])

    def add(self, stage, step, variable, value, microbatch=None, part="value"):
        """Put an array in, or Rows as parts ids and rows."""
        if isinstance(value, Rows):
            self.arrays[stage, step, microbatch, variable, "ids"] = np.array(value.ids, np.int64)
            self.arrays[stage, step, microbatch, variable, "rows"] = np.array(value.rows)
        else:
            self.arrays[stage, step, microbatch, variable, part] = np.array(value)

    def get(self, stage, step, variable, microbatch=None, part="value"):
        """Return an array, Rows of parts ids and rows, or None if it is not there."""
        ids = self.arrays.get((stage, step, microbatch, variable, "ids"))
        if ids is not None and part == "value":
            return Rows(ids, self.arrays[stage, step, microbatch, variable, "rows"])
        return self.arrays.get((stage, step, microbatch, variable, part))

    def only(self, stages) -> "Trace":
        """Return a trace of these stages' arrays."""
        return Trace(dict(self.head), {place: a for place, a in self.arrays.items() if place[0] in stages})


def key_of_array(place) -> str:
    """Return the name under which we write an array."""
    stage, step, microbatch, variable, part = place
    where = [stage] + [f"step{step}"] * (step is not None) + [f"microbatch{microbatch}"] * (microbatch is not None)
    return f"{'.'.join(where)}:{variable}:{part}"


def sha256(array) -> str:
    """Return the hex SHA-256 of an array's bytes, C order. Local."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def edition_of(trace: Trace) -> str:
    """Return the hex SHA-256 of all that a training is: settings, variables, inputs and start; in any precision. Local.

    head must have ``training`` and ``variables``: another rate or clip is another training.
    """
    settings = {what: trace.head[what] for what in ("training", "variables")}
    digest = hashlib.sha256(f"{json.dumps(settings, sort_keys=True)}\n".encode())
    for place, array in sorted(trace.arrays.items(), key=lambda item: key_of_array(item[0])):
        if place[0] in ("inputs", "start"):
            array = array.astype(np.float64) if array.dtype.kind == "f" else array
            digest.update(f"{key_of_array(place)} {sha256(array)}\n".encode())
    return digest.hexdigest()


def write_trace(trace: Trace, path) -> tuple[Path, Path]:
    """Write PATH.safetensors and PATH.json, each whole or not at all, the manifest last. Local."""
    from safetensors.numpy import save

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {place: np.array(a, order="C") for place, a in trace.arrays.items()}
    entries = {key_of_array(place): asdict(ArrayEntry(*place, str(a.dtype), list(a.shape), sha256(a)))
               for place, a in arrays.items()}
    manifest = json.dumps({**trace.head, "format": FORMAT, "arrays": dict(sorted(entries.items()))},
                          separators=(",", ":"), sort_keys=True)
    files = {".safetensors": save({key_of_array(place): a for place, a in arrays.items()}),
             ".json": manifest.replace('"},"', '"},\n"').encode() + b"\n"}
    for suffix, content in files.items():
        temporary = path.with_name(f".{path.name}{suffix}.{os.getpid()}")
        temporary.write_bytes(content)
        os.replace(temporary, path.with_name(path.name + suffix))
    return tuple(path.with_name(path.name + suffix) for suffix in (".json", ".safetensors"))


def read_trace(path) -> Trace:
    """Read a trace from its manifest. Raises ValueError saying what is wrong and what to do. Local."""
    path = Path(path)
    path = path if path.suffix == ".json" else path.with_name(path.name.removesuffix(".safetensors") + ".json")
    head = read_json(path, dict, what="the manifest of a trace", remedy=REMEDY)
    if "format" in head and head["format"] != FORMAT:
        raise ValueError(f"{path}: trace of format {str(head['format'])[:20]}; this version reads format {FORMAT}")
    try:
        entries = {key: shaped(entry, ArrayEntry, f"$.arrays.{key}")
                   for key, entry in shaped(head, Head)["arrays"].items()}
        Semantics.from_json(head["semantics"])
    except ValueError as problem:
        raise ValueError(f"{path} is damaged, or not the manifest of a trace: {problem}; {REMEDY}") from problem
    return Trace({name: value for name, value in head.items() if name not in ("format", "arrays")},
                 _read_arrays(path, entries))


def _read_arrays(path, entries) -> dict:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file = path.with_suffix(".safetensors")
    try:
        check_plain(file, MOST_ARRAYS)
        found = load_file(file)
    except (SafetensorError, KeyError, ValueError) as problem:  # KeyError: of a dtype that NumPy lacks
        raise ValueError(f"{file} is no safetensors file: {problem}") from problem
    for ours, those, words in ((set(entries), set(found), "named in the manifest, not in the file"),
                               (set(found), set(entries), "in the file, not in the manifest")):
        if ours - those:
            raise ValueError(f"{file}: {sorted(ours - those)[0]!r} is {words}")
    arrays = {}
    for key, entry in entries.items():
        place = _checked_entry(path, key, entry, found[key])
        if place in arrays:
            raise ValueError(f"{path}: {key!r} is there twice: {key_of_array(place)}")
        arrays[place] = found[key]
    for stage, step, microbatch, variable, part in arrays:
        other = {"ids": "rows", "rows": "ids"}.get(part)
        if other and (stage, step, microbatch, variable, other) not in arrays:
            raise ValueError(f"{path}: {variable} has {part} without {other} (stage {stage}, step {step})")
    return arrays


def _checked_entry(path, key, entry, array) -> tuple:
    if str(array.dtype) != entry.dtype or list(array.shape) != entry.shape:
        raise ValueError(f"{path}: {key!r} should be {entry.dtype} {entry.shape}, the file has {array.dtype} "
                         f"{list(array.shape)}")
    if sha256(array) != entry.sha256:
        raise ValueError(f"{path}: {key!r} has another SHA-256 than the manifest says: the file was changed or "
                         f"damaged; write both again")
    return entry.place
