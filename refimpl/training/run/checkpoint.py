"""Checkpoints: safetensors and JSON, independent of the number of ranks and of the architecture.

checkpoint-STEP.safetensors holds the arrays, checkpoint-STEP.json says what they are and carries the file's SHA-256.
The JSON is renamed into place last: a checkpoint exists if its JSON does, so a job may be killed at any moment.
"""

import json
import re
from functools import cache
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from kernels.arrays import as_array
from kernels.update import OPTIMIZERS
from refimpl.training.agreement import agree_on
from refimpl.training.options import MATHEMATICS, Options
from refimpl.training.run.files import appears_whole, file_sha256, write_json
from refimpl.training.run.whole import gather_arrays, gather_carried, key_of_array, slots_of

FORMAT = 1
MANIFEST = {"format", "step", "arrays", "sha256", "describe", "options", "microbatches", "data", "variables"}


def save_checkpoint(trainer, directory: Path, describe: dict, keep: int = 2, search: dict | None = None):
    """Write the state after ``trainer.step`` steps; drop all but the ``keep`` newest checkpoints. Collective.

    search: what a partition search has measured, to go on with, see ``PartitionTrials.state``; None: none is on.
    Raises CollectiveError on every rank if rank 0 cannot write.
    """
    slots = OPTIMIZERS[trainer.options.optimizer].state
    arrays = gather_arrays(trainer.parameters, slots) | gather_carried(trainer.comm, trainer.carried)

    def work():
        try:
            _write(trainer, directory, describe, arrays, {} if search is None else {"search": search})
            for old in steps_saved(directory)[:-keep]:
                _path(directory, old, "json").unlink(missing_ok=True)
                _path(directory, old, "safetensors").unlink(missing_ok=True)
        except (OSError, SafetensorError) as problem:
            why = getattr(problem, "strerror", None) or problem
            raise OSError(f"cannot write a checkpoint to {directory}: {why}; "
                          "free space there, or give another --output") from problem

    trainer.comm.together(lambda: None if trainer.comm.rank else work())


def _write(trainer, directory, describe, arrays, optional):
    path = _path(directory, trainer.step, "safetensors")
    with appears_whole(path) as temporary:
        save_file(arrays, temporary)
        digest = file_sha256(temporary)
    write_json(_path(directory, trainer.step, "json"), {
        "format": FORMAT, "step": trainer.step, "arrays": path.name, "sha256": digest, "describe": describe,
        "options": trainer.options.to_json(), "microbatches": trainer.data.microbatches,
        "data": trainer.data.fingerprint, "variables": _shapes(trainer.model.variables),
        **optional})


def _path(directory: Path, step: int, suffix: str) -> Path:
    return Path(directory) / f"checkpoint-{step}.{suffix}"


def _shapes(variables) -> dict:
    return {v.name: f"{v.dtype} {list(v.shape)}" for v in variables}


def steps_saved(directory: Path) -> list[int]:
    """Return the steps of which a directory has a checkpoint, rising. Local."""
    found = (re.fullmatch(r"checkpoint-(\d+)\.json", path.name) for path in Path(directory).glob("checkpoint-*.json"))
    return sorted(int(match[1]) for match in found if match)


def read_manifest(directory: Path) -> dict:
    """Return the newest checkpoint's JSON. Local.

    Raises ValueError or OSError saying what is wrong: no checkpoint, unknown format, arrays missing or damaged.
    """
    directory = Path(directory)
    steps = steps_saved(directory)
    if not steps:
        raise ValueError(f"no checkpoint in {directory}: give --resume a run directory that has checkpoint-STEP.json")
    path = _path(directory, steps[-1], "json")
    try:
        manifest = json.loads(path.read_text())
        version, missing = manifest["format"], MANIFEST - set(manifest)
    except (ValueError, KeyError, TypeError) as problem:  # no text, no JSON, no object, or an object without a format
        raise ValueError(f"{path} is damaged ({type(problem).__name__}: {problem}); delete it to resume from the "
                         f"checkpoint before it") from problem
    if version != FORMAT:
        raise ValueError(f"{path} has format {version}: this version reads format {FORMAT}")
    if missing:
        raise ValueError(f"{path} is damaged: it has no {', '.join(sorted(missing))}; delete it to resume from the "
                         f"checkpoint before it")
    arrays = directory / manifest["arrays"]
    if not arrays.exists() or file_sha256(arrays) != manifest["sha256"]:
        state = "damaged" if arrays.exists() else "missing"
        raise ValueError(f"{arrays} is {state}: its SHA-256 is not what {path.name} says; "
                         f"delete {path.name} to resume from the checkpoint before it")
    return manifest


def read_parameters(directory: Path) -> dict:
    """Return name -> whole value of each variable in the newest checkpoint of a directory. Local.

    Raises ValueError or OSError as ``read_manifest`` does.
    """
    manifest = read_manifest(directory)
    with safe_open(Path(directory) / manifest["arrays"], framework="numpy") as file:
        return {name: file.get_tensor(key_of_array(name, None)) for name in manifest["variables"]}


def check_fits(manifest: dict, trainer):
    """Raise ValueError naming what differs unless the checkpoint continues this very training. Local."""
    theirs = Options.from_json(manifest["options"])
    pairs = [(name, getattr(theirs, name), getattr(trainer.options, name)) for name in MATHEMATICS]
    if theirs.rate == trainer.options.rate == "constant":  # it never falls: more steps are the same training
        pairs = [pair for pair in pairs if pair[0] != "rate_steps"]
    pairs += [("microbatches", manifest["microbatches"], trainer.data.microbatches),
              ("data", manifest["data"], trainer.data.fingerprint),
              ("variables", manifest["variables"], _shapes(trainer.model.variables))]
    differing = [f"{name} was {was} and is now {now}" for name, was, now in pairs if was != now]
    if differing:
        raise ValueError("the checkpoint is of another training: " + "; ".join(differing)
                         + ". Leave these options out to take the checkpoint's")


def load_checkpoint(trainer, directory: Path) -> dict | None:
    """Continue from the newest checkpoint of a directory; each rank reads its own part. Collective.

    Returns what a partition search had measured, as ``save_checkpoint`` was given it; None if there was none.
    Raises CollectiveError on every rank if any cannot read it, or if it is of another training.
    """
    def read():
        manifest = read_manifest(directory)
        check_fits(manifest, trainer)
        with safe_open(Path(directory) / manifest["arrays"], framework="numpy") as file:
            _place(trainer, file)
        trainer.step = manifest["step"]
        return {"checkpoint's step": manifest["step"], "checkpoint": manifest["sha256"],
                "checkpoint's search": manifest.get("search")}

    read_here = trainer.comm.together(read)
    agree_on(trainer.comm, read_here)  # each machine reads its own disk
    return read_here["checkpoint's search"]


def _place(trainer, file):
    for name, slot in slots_of(trainer.parameters, OPTIMIZERS[trainer.options.optimizer].state):
        key = key_of_array(name, slot)

        @cache  # an interleaved table is read once, not once for each partition
        def whole(key=key):
            return file.get_tensor(key)

        def read(rows, key=key, whole=whole):
            if rows is None or rows.step > 1:
                return as_array(trainer.xp, whole() if rows is None else whole()[rows.start:rows.stop:rows.step])
            return trainer.xp.asarray(file.get_slice(key)[rows.start:rows.stop] if len(rows) else whole()[:0])

        trainer.parameters.place(name, slot, read)
    for v, state in trainer.carried.items():
        state.clear()
        prefix = f"carry/{v}/"
        for key in file.keys():
            if key.startswith(prefix):
                state[key.removeprefix(prefix)] = trainer.xp.asarray(file.get_tensor(key))
