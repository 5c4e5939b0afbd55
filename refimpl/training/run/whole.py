"""The whole state of a training, wherever its parts are: variables, optimizer state, states of microbatches."""

import hashlib
from typing import Iterator

import numpy as np
from safetensors.numpy import load, save

from kernels import to_numpy
from refimpl.training.parameters import Parameters
from refimpl.transport import Communicator


def key_of_array(name: str, slot: str | None) -> str:
    """Return the key of an array in a checkpoint."""
    return f"parameter/{name}" if slot is None else f"state/{slot}/{name}"


def key_of_residual(name: str, microbatch: int) -> str:
    """Return the checkpoint key of a codec's residual for a microbatch."""
    return f"residual/{microbatch}/{name}"


def kinds_of(parameters: Parameters) -> dict:
    """Return key -> (variable, slot) of every array of the state, the same on every rank; slot None: values. Local."""
    return {key_of_array(v.name, slot): (v, slot) for v in parameters.variables
            for slot in (None, *parameters.slots[v.name])}


def bytes_of_array(parameters: Parameters, variable, slot) -> Iterator[memoryview]:
    """Yield the bytes of a whole array of the state, block by block, on rank 0; empty ones elsewhere. Collective."""
    for _, rows in parameters.blocks(variable.name, slot, [0], "checkpoint"):
        if rows is None:
            yield memoryview(b"")
        else:
            parameters.comm.settle()
            yield raw(_in_one_piece(rows))


def raw(array) -> memoryview:
    """Return a view of the bytes of a NumPy array in C order. Local."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def _in_one_piece(array):
    """Return a contiguous array of the same shape (ascontiguousarray would make a scalar a vector)."""
    return np.asarray(to_numpy(array), order="C")


def gather_carried(comm: Communicator, carried: dict[int, dict]) -> dict:
    """Return "carry/V/NAME" -> array of all microbatches on rank 0, {} elsewhere. Collective."""
    return gather_named(comm, lambda: {f"carry/{v}/{name}": array
                                       for v, state in carried.items() for name, array in state.items()})


def gather_named(comm: Communicator, named, everywhere=False, phase="checkpoint") -> dict:
    """Return on rank 0, or on every rank, the arrays that named() returns on all ranks; {} elsewhere. Collective."""
    def pack():
        try:
            mine = {name: _in_one_piece(array) for name, array in named().items()}
            return mine, np.frombuffer(save(mine), np.uint8)
        except Exception as problem:
            raise ValueError(f"batch.state must hold arrays, to be saved in a checkpoint: {problem}") from problem

    mine, packed = comm.together(pack)
    sizes = comm.share(np.array([packed.size], np.int64), phase)[:, 0]
    takers, others = range(comm.size if everywhere else 1), [r for r in range(comm.size) if r != comm.rank]
    boxes = {r: np.empty(sizes[r], np.uint8) for r in others if comm.rank in takers}
    comm.exchange([(r, packed, {"": packed.size}) for r in others if r in takers],
                  [(r, box, {"": box.size}) for r, box in boxes.items()], phase, "control")
    for box in boxes.values():
        mine |= load(box.tobytes())
    return mine if comm.rank in takers else {}


def sha256_of(arrays: dict, prefix: str) -> str:
    """Return the hex SHA-256 of the arrays whose key begins with ``prefix``: keys, dtypes, shapes, bytes. Local.

    Keys are sorted, so the order of ``arrays`` does not matter.
    """
    digest = hashlib.sha256()
    for key in sorted(arrays):
        if key.startswith(prefix):
            digest.update(_told(key, arrays[key].dtype, arrays[key].shape))
            digest.update(raw(arrays[key]))
    return digest.hexdigest()


def _told(key, dtype, shape) -> bytes:
    return f"{key} {np.dtype(dtype).str} {shape}\n".encode()


def hashes(parameters: Parameters) -> dict:
    """Return {"parameters_sha256", "state_sha256"}, the same on every rank (docs/design.md, I1). Collective."""
    kinds, found = kinds_of(parameters), {"parameter/": hashlib.sha256(), "state/": hashlib.sha256()}
    for key in sorted(kinds):
        variable, slot = kinds[key]
        digest = found["parameter/" if slot is None else "state/"]
        digest.update(_told(key, variable.dtype, variable.shape))
        for piece in bytes_of_array(parameters, variable, slot):
            digest.update(piece)
    text = parameters.comm.once(lambda: "".join(digest.hexdigest() for digest in found.values()))
    return {"parameters_sha256": text[:64], "state_sha256": text[64:]}


def hand_back(parameters: Parameters, model):
    """Give the learned values to a model that keeps them (``models.protocol``). Collective."""
    comm = parameters.comm
    for name in getattr(model, "names_to_keep", ()):
        value = parameters.collect(name, None, True, "learned")
        comm.settle()
        comm.together(lambda: model.keep_learned(name, value))
