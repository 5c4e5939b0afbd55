"""The manifest of a checkpoint describes its arrays, and has digests of them and of itself.

    digest = SHA-256 of the manifest's JSON in a fixed form (fields sorted, no spaces) without the field ``digest``

It contains the SHA-256 and size of the arrays' file, and the dtype and shape of each array. So a change of either file
is always noticed. To change something on resume, a user gives options.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from safetensors import SafetensorError, safe_open

from refimpl.json_file import check_plain, parse_json, read_json, shaped
from refimpl.training.options import Options
from refimpl.training.run.files import file_sha256
from refimpl.training.run.tensor_file import DTYPES
from refimpl.training.run.whole import key_of_array

FORMAT = 2
FLIGHT = "flight"
"""The beginning of the names of arrays that are under way without barriers: see ``served.flight``."""
MOST_BYTES = 1 << 30
"""The most bytes in a manifest. A plan with many partitions of many variables has some megabytes."""
REMEDY = "delete {} to resume from the checkpoint before it"

Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Count = Annotated[int, Meta(ge=0)]


class Manifest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A checkpoint after ``step`` steps.

    arrays: the name of its file of arrays.  bytes, sha256: of that file.  holds: key (see ``whole.key_of_array``) ->
    dtype and shape, as ``kind_of`` writes them.  variables: name -> the same.
    describe: description of model and data.  options: of the training.  data: fingerprint.
    blocks: variable -> number of its column blocks, if there are several.
    own: variable -> its own learning rate and weight decay, if it does not use the options'.
    search: of a partition search that has not ended, see ``PartitionTrials.state``.
    """

    format: int
    step: Count
    arrays: Annotated[str, Meta(pattern=r"^checkpoint-[0-9]+\.safetensors\Z")]
    bytes: Count
    sha256: Digest
    holds: dict[str, str]
    describe: dict
    options: dict
    microbatches: Count
    data: str
    variables: dict[str, str]
    blocks: dict[str, int] | None = None
    own: dict[str, dict[str, float]] | None = None
    search: dict | None = None


class _Signed(Manifest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    digest: Digest


def path_of(directory: Path, step: int, suffix: str) -> Path:
    """Return the path of a checkpoint's manifest (json) or arrays (safetensors). Local."""
    return Path(directory) / f"checkpoint-{step}.{suffix}"


def steps_saved(directory: Path) -> list[int]:
    """Return the steps whose checkpoints are in a directory, rising. Local."""
    found = (re.fullmatch(r"checkpoint-(0|[1-9][0-9]{0,17})\.json", path.name)
             for path in Path(directory).glob("checkpoint-*.json"))
    return sorted(int(match[1]) for match in found if match)


def kind_of(dtype, shape) -> str:
    """Return dtype and shape as text for a manifest: "float32 [4, 8]". Local."""
    return f"{np.dtype(dtype).name} {list(shape)}"


def digest_of(fields: dict) -> str:
    """Return the digest of a manifest's fields without ``digest``: see above. Local."""
    told = {name: value for name, value in fields.items() if name != "digest"}
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def signed(manifest: Manifest) -> dict:
    """Return a manifest's fields with its digest. Raises ValueError if they could not be read again. Local."""
    told = {name: getattr(manifest, name) for name in manifest.__struct_fields__}
    try:
        fields = parse_json(json.dumps({name: value for name, value in told.items() if value is not None}), dict)
        fields["digest"] = digest_of(fields)
        Options.from_json(shaped(fields, _Signed).options)
    except (ValueError, TypeError) as problem:
        raise ValueError(f"a checkpoint of this training could not be read again: {problem}; what options, data and "
                         "description say must be plain values") from problem
    return fields


def read_manifest(directory: Path) -> Manifest:
    """Return the manifest of the newest checkpoint in a directory, after checking the file of its arrays. Local.

    Raises ValueError or OSError, with a remedy: no checkpoint, another format, anything missing, damaged or changed.
    """
    steps = steps_saved(directory)
    if not steps:
        what = "holds no checkpoint" if Path(directory).is_dir() else "is no directory"
        raise ValueError(f"{directory} {what}: give the run directory of a training, where it has saved "
                         "checkpoint-STEP.json")
    path = path_of(directory, steps[-1], "json")
    remedy = REMEDY.format(path.name)
    manifest = _read(path, remedy)
    try:
        _check_content(manifest, steps[-1])
    except ValueError as problem:
        raise ValueError(f"{path} is damaged: {problem}; {remedy}") from problem
    _check_arrays(path, manifest, remedy)
    return manifest


def _check_content(manifest, step):
    """Raise ValueError unless the manifest's fields agree with each other, and with the step in its name."""
    Options.from_json(manifest.options)
    if manifest.step != step or manifest.arrays != path_of("", step, "safetensors").name:
        raise ValueError(f"its name is wrong: it describes step {manifest.step} and {manifest.arrays}")
    for name, kind in manifest.variables.items():
        if (held := manifest.holds.get(key_of_array(name, None))) != kind:
            raise ValueError(f"{name} is {kind}, and its array {held or 'missing'}")


def _read(path, remedy) -> Manifest:
    """Return the manifest in a file, if it has this format and was not changed."""
    fields = read_json(path, dict, what="a checkpoint's manifest", remedy=remedy, most_bytes=MOST_BYTES)
    if "format" in fields and fields["format"] != FORMAT:
        raise ValueError(f"{path} has format {str(fields['format'])[:20]}: this version reads format {FORMAT}; resume "
                         "it with the version that wrote it, or train anew")
    try:
        signed = shaped(fields, _Signed)
    except ValueError as problem:
        raise ValueError(f"{path} is damaged: {problem}; {remedy}") from problem
    if digest_of(fields) != signed.digest:
        raise ValueError(f"{path} was changed after it was written, or is damaged: its digest does not match; "
                         f"{remedy}. To go on with other options, give them beside --resume")
    return signed


def _check_arrays(path, manifest, remedy):
    """Raise ValueError unless the file of arrays has the manifest's size, digest and header."""
    arrays = path.with_name(manifest.arrays)
    try:
        check_plain(arrays, manifest.bytes)
        if arrays.resolve().parent != path.resolve().parent:
            raise ValueError("it is a link to a file in another folder than the manifest")
        if file_sha256(arrays) != manifest.sha256:
            raise ValueError(f"its SHA-256 is not what {path.name} says")
        _check_header(arrays, manifest)
    except FileNotFoundError as problem:
        raise ValueError(f"{arrays} is missing; {remedy}") from problem
    except ValueError as problem:
        raise ValueError(f"{arrays} is damaged: {problem}; {remedy}") from problem


def _check_header(arrays, manifest):
    """Raise ValueError unless the file contains exactly the arrays in the manifest."""
    try:
        with safe_open(arrays, framework="numpy") as file:
            found = {key: _kind_in_file(file.get_slice(key)) for key in file.keys()}
    except SafetensorError as problem:
        raise ValueError(f"it is no safetensors file: {problem}") from problem
    if differing := sorted(key for key in {*found, *manifest.holds} if found.get(key) != manifest.holds.get(key)):
        key = differing[0]
        raise ValueError(f"{key} is {found.get(key, 'missing')}; the manifest says "
                         f"{manifest.holds.get(key, 'that it is missing')}")


def _kind_in_file(array) -> str:
    return f"{DTYPES.get(array.get_dtype(), array.get_dtype())} {array.get_shape()}"
