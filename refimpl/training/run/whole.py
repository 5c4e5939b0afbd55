"""The whole state of a training, wherever its parts live: every variable, its optimizer state, what is carried."""

import hashlib

import numpy as np
from safetensors.numpy import load, save

from kernels import to_numpy
from refimpl.training.parameters import Parameters
from refimpl.transport import Communicator


def slots_of(parameters: Parameters, optimizer_state) -> list[tuple[str, str | None]]:
    """Return (variable, slot) of every array of the state, slot None for the value: the same list on every rank."""
    pairs: list[tuple[str, str | None]] = []
    for variable in parameters.variables:
        pairs.append((variable.name, None))
        if not variable.statistic:
            pairs += [(variable.name, slot) for slot in optimizer_state]
    return pairs


def key_of_array(name: str, slot: str | None) -> str:
    """Return the name of an array in a checkpoint."""
    return f"parameter/{name}" if slot is None else f"state/{slot}/{name}"


def key_of_residual(name: str, microbatch: int) -> str:
    """Return the name, in a checkpoint, of what a codec has left out of a microbatch's gradients."""
    return f"residual/{microbatch}/{name}"


def gather_arrays(parameters: Parameters, optimizer_state) -> dict:
    """Return key -> NumPy array of the whole state on rank 0, {} elsewhere. Collective."""
    arrays = {}
    for name, slot in slots_of(parameters, optimizer_state):
        array = parameters.collect(name, slot, everyone=False, phase="checkpoint")
        if array is not None:
            parameters.comm.settle()
            arrays[key_of_array(name, slot)] = _in_one_piece(array)
    return arrays


def _in_one_piece(array):
    """Return a NumPy array of the same shape (ascontiguousarray makes a scalar a vector)."""
    return np.asarray(to_numpy(array), order="C")


def gather_carried(comm: Communicator, carried: dict[int, dict]) -> dict:
    """Return "carry/V/NAME" -> array of all microbatches on rank 0, {} elsewhere. Collective."""
    return gather_named(comm, lambda: {f"carry/{v}/{name}": array
                                       for v, state in carried.items() for name, array in state.items()})


def gather_named(comm: Communicator, named) -> dict:
    """Return the arrays that named(), name -> array, returns on each rank: of all on rank 0, {} elsewhere. Collective.
    """
    def pack():
        try:
            mine = {name: _in_one_piece(array) for name, array in named().items()}
            return mine, np.frombuffer(save(mine), np.uint8)
        except Exception as problem:
            raise ValueError(f"batch.state must hold arrays, to be saved in a checkpoint: {problem}") from problem

    mine, packed = comm.together(pack)
    sizes = comm.share(np.array([packed.size], np.int64), "checkpoint")[:, 0]
    if comm.rank:
        comm.exchange([(0, packed, {"": packed.size})], [], "checkpoint", "control")
        return {}
    boxes = {r: np.empty(sizes[r], np.uint8) for r in range(1, comm.size)}
    comm.exchange([], [(r, box, {"": box.size}) for r, box in boxes.items()], "checkpoint", "control")
    for box in boxes.values():
        mine |= load(box.tobytes())
    return mine


def sha256_of(arrays: dict, prefix: str) -> str:
    """Return the hex SHA-256 of the arrays whose key begins with ``prefix``: keys, dtypes, shapes, bytes. Local.

    By key, so that the order of ``arrays`` does not matter.
    """
    digest = hashlib.sha256()
    for key in sorted(arrays):
        if key.startswith(prefix):
            array = arrays[key]
            digest.update(f"{key} {array.dtype.str} {array.shape}\n".encode())
            digest.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return digest.hexdigest()


def hashes(parameters: Parameters, optimizer_state) -> dict:
    """Return {"parameters_sha256", "state_sha256"} on every rank: one answer (docs/design.md, I1). Collective."""
    arrays = gather_arrays(parameters, optimizer_state)
    text = parameters.comm.once(lambda: sha256_of(arrays, "parameter/") + sha256_of(arrays, "state/"))
    return {"parameters_sha256": text[:64], "state_sha256": text[64:]}


def hand_back(parameters: Parameters, model):
    """Give a model, if it keeps them (``models.protocol``), the values that were learned, whole. Collective."""
    comm = parameters.comm
    for name in getattr(model, "names_to_keep", ()):
        value = parameters.collect(name, None, True, "learned")
        comm.settle()
        comm.together(lambda: model.keep_learned(name, value))
