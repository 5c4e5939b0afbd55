"""Checkpoints: safetensors and JSON, independent of the number of ranks and of the architecture.

checkpoint-STEP.safetensors holds the arrays, checkpoint-STEP.json describes them (``manifest.py``). The JSON is renamed
into place last: a checkpoint exists if its JSON does, so a job may be killed at any time.
"""

import re
from functools import cached_property
from itertools import chain
from pathlib import Path

from safetensors import safe_open

from models import STATISTIC_RATE
from refimpl.gradients.codecs import IDENTITY
from refimpl.plan.codecs import codecs_of, encoded
from refimpl.plan.plan import SYNCHRONOUS, Plan
from refimpl.training.agreement import agree_on
from refimpl.training.options import MATHEMATICS, Options
from refimpl.training.run.files import appears_whole, write_json
from refimpl.training.run.manifest import FLIGHT, FORMAT, Manifest, kind_of, path_of, read_manifest, signed, steps_saved
from refimpl.training.run.tensor_file import header_of, in_file_order, write_pieces
from refimpl.training.run.whole import (
    bytes_of_array, gather_carried, gather_named, key_of_array, kinds_of, raw,
)
from refimpl.training.schedule import lengthens


def save_checkpoint(trainer, directory: Path, describe: dict, keep: int = 2, search: dict | None = None):
    """Write the state after ``trainer.step`` steps; delete all but the ``keep`` newest checkpoints. Collective.

    search: ``PartitionTrials.state``, with which a search continues after a resume; None without a search.
    Raises CollectiveError on every rank if rank 0 cannot write.
    """
    state = kinds_of(trainer.parameters)
    others = (gather_carried(trainer.comm, trainer.carried) | gather_named(trainer.comm, trainer.in_flight)
              | gather_named(trainer.comm, trainer.residuals) | trainer.common())
    kinds = {key: (variable.dtype, variable.shape) for key, (variable, _) in state.items()}
    kinds |= {key: (array.dtype, array.shape) for key, array in others.items()}
    pieces = _pieces(trainer.parameters, state, others, in_file_order(kinds))

    def work():
        try:
            if not trainer.comm.rank:
                _write(trainer, directory, describe, kinds, pieces, search)
                for old in steps_saved(directory)[:-keep]:
                    path_of(directory, old, "json").unlink(missing_ok=True)
                    path_of(directory, old, "safetensors").unlink(missing_ok=True)
        except OSError as problem:
            why = getattr(problem, "strerror", None) or problem
            raise OSError(f"cannot write a checkpoint to {directory}: {why}; "
                          "free space there, or give another --output") from problem
        finally:
            for _ in pieces:  # the other ranks send theirs, even if rank 0 could not write
                pass

    trainer.comm.together(work)


def _pieces(parameters, state, others, keys):
    """Yield the bytes of all arrays on rank 0, in the order of ``keys``; empty ones on other ranks. Collective."""
    for key in keys:
        if key in state:
            yield from bytes_of_array(parameters, *state[key])
        else:
            yield raw(others[key])


def _write(trainer, directory, describe, kinds, pieces, search):
    path = path_of(directory, trainer.step, "safetensors")
    with appears_whole(path) as temporary:
        digest, size = write_pieces(temporary, chain([header_of(kinds)], pieces))
    holds = {key: kind_of(dtype, shape) for key, (dtype, shape) in kinds.items()}
    write_json(path_of(directory, trainer.step, "json"),
               signed(_manifest(trainer, describe, digest, size, holds, search)))


def _manifest(trainer, describe, digest="0" * 64, size=0, holds=(), search=None) -> Manifest:
    return Manifest(
        format=FORMAT, step=trainer.step, arrays=path_of("", trainer.step, "safetensors").name, bytes=size,
        sha256=digest, holds=dict(holds), describe=describe, options=trainer.options.to_json(),
        microbatches=trainer.data.microbatches, data=trainer.data.fingerprint,
        variables=_kinds(trainer.model.variables), blocks=_blocks(trainer.model.variables),
        own=_own(trainer.model.variables), search=search)


def check_saveable(trainer, describe: dict):
    """Raise ValueError, before the first step, if a checkpoint of the training could not be read again. Local."""
    signed(_manifest(trainer, describe))


def _kinds(variables) -> dict:
    return {v.name: kind_of(v.dtype, v.shape) for v in variables}


def _blocks(variables) -> dict | None:
    return {v.name: v.blocks for v in variables if v.blocks > 1} or None


def _own(variables) -> dict | None:
    usual = None, STATISTIC_RATE  # of running statistics
    found = {v.name: {name: float(value) for name in ("learning_rate", "weight_decay")
                      if (value := getattr(v, name)) not in usual[:1 + v.statistic]} for v in variables}
    return {name: numbers for name, numbers in found.items() if numbers} or None


def read_parameters(directory: Path) -> dict:
    """Return name -> whole value in the newest checkpoint of a directory. Local. Raises as ``read_manifest``."""
    manifest = read_manifest(directory)
    with safe_open(Path(directory) / manifest.arrays, framework="numpy") as file:
        return {name: file.get_tensor(key_of_array(name, None)) for name in manifest.variables}


CHANGEABLE = ("learning_rate", "rate", "warmup", "rate_steps", "clip_norm", "weight_decay")
"""Options that a resumed run may change, if the user asks for it."""
OF_GROUPS = " of parameter groups"


def check_fits(manifest: Manifest, trainer, change=()):
    """Raise ValueError unless the checkpoint belongs to this training; ``change``: options that may differ. Local."""
    if wrong := sorted(set(change) - set(CHANGEABLE)):
        raise ValueError(f"change names {', '.join(wrong)}: on resume {', '.join(CHANGEABLE)} may be changed")
    theirs = Options.from_json(manifest.options)
    pairs = [(name, getattr(theirs, name), getattr(trainer.options, name)) for name in MATHEMATICS
             if name != "codec" and name not in change]
    if not isinstance(theirs.rate, str) and trainer.options.rate[:len(theirs.rate)] == theirs.rate:
        pairs = [pair for pair in pairs if pair[0] not in ("rate", "rate_steps")]  # given for more steps
    if theirs.rate == trainer.options.rate == "constant" or lengthens(theirs, trainer.options, trainer.comm.size):
        pairs = [pair for pair in pairs if pair[0] != "rate_steps"]  # it never falls, or could not go on
    pairs += [("codec", _encoded(theirs, trainer.model.variables), encoded(trainer.plan)),
              ("microbatches", manifest.microbatches, trainer.data.microbatches),
              ("data", manifest.data, trainer.data.fingerprint),
              ("variables", manifest.variables, _kinds(trainer.model.variables)),
              ("the number of column blocks", manifest.blocks, _blocks(trainer.model.variables))]
    for name in ("learning_rate", "weight_decay"):
        if name not in change:
            both = (manifest.own or {}, _own(trainer.model.variables) or {})
            pairs.append((f"{name}{OF_GROUPS}", *({v: own[name] for v, own in each.items() if name in own}
                                                  for each in both)))
    differing = {name: f"{name} was {was!s:.80} and is now {now!s:.80}" for name, was, now in pairs if was != now}
    if differing:
        may = [name for name in CHANGEABLE if name in differing or f"{name}{OF_GROUPS}" in differing]
        raise ValueError("the checkpoint is of another training: " + "; ".join(differing.values())
                         + ". Leave these options out to take the checkpoint's"
                         + f"; to go on with others, say train(..., change={may})" * bool(may))
    _check_arrays(manifest, trainer)


def _encoded(options, variables) -> dict:
    """Return variable -> codec of the variables that a training with these options encodes."""
    if options.plan is not None:
        return encoded(Plan.from_json(options.plan))
    return {name: codec for name, codec in codecs_of(variables, options.codec).items() if codec != IDENTITY}


def _check_arrays(manifest, trainer):
    """Raise ValueError unless the arrays are those of variables, their state, and the state of microbatches."""
    kinds, carried = _kinds(trainer.model.variables), {str(v) for v in range(trainer.data.microbatches)}
    in_flight = trainer.plan.consistency != SYNCHRONOUS
    wanted = {key: kinds[variable.name] for key, (variable, _) in kinds_of(trainer.parameters).items()}
    wanted |= {key: kind_of(*kind) for key, kind in trainer.left_out().items()}
    for key in sorted({*wanted, *manifest.holds}):
        is_carried = re.match("carry/([0-9]+)/", key)
        expected = is_carried and is_carried[1] in carried or in_flight and key.startswith(f"{FLIGHT}/")
        if manifest.holds.get(key) != wanted.get(key) and not expected:
            raise ValueError(f"the checkpoint's {key} is {manifest.holds.get(key, 'missing')}; this training has "
                             f"{wanted.get(key, 'no such array')}")


def load_checkpoint(trainer, directory: Path, change=()) -> dict | None:
    """Continue from the newest checkpoint of a directory; each rank reads its own part. Collective.

    change: see ``check_fits``.
    Returns the state of a partition search that was given to ``save_checkpoint``, or None.
    Raises CollectiveError on every rank if any cannot read it, or if it belongs to another training.
    """
    def read():
        manifest = read_manifest(directory)
        check_fits(manifest, trainer, change)
        with safe_open(Path(directory) / manifest.arrays, framework="numpy") as file:
            trainer.restore(manifest.step, {key: _Saved(file, key) for key in file.keys()})
        return {"checkpoint's step": manifest.step, "checkpoint": manifest.sha256,
                "checkpoint's search": manifest.search}

    read_here = trainer.comm.together(read)
    agree_on(trainer.comm, read_here)  # each machine reads its own disk
    return read_here["checkpoint's search"]


class _Saved:
    """An array in a checkpoint's file. Rows are read from the file when they are used. Local."""

    def __init__(self, file, key):
        self.file, self.key = file, key

    def __getitem__(self, rows):
        if rows is ... or rows.step > 1 or rows.start >= rows.stop:
            return self.whole[rows]
        return self.file.get_slice(self.key)[rows.start:rows.stop]

    @cached_property
    def whole(self):
        """The whole array: an interleaved table is read once, not once for each partition."""
        return self.file.get_tensor(self.key)
