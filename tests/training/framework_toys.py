"""What the tests of ``refimpl.torch`` and ``refimpl.jax`` have in common."""

import numpy as np
import pytest
from mpi4py import MPI

from models.data import TokenStreams
from models.data.text.synthetic import load_synthetic
from refimpl.transport import CollectiveError


def text_of(microbatches=8):
    """Return texts whose second step, the last of an epoch, has padding."""
    return TokenStreams(load_synthetic("50", tokens=118, heldout_tokens=0).train, microbatches, 2, 4)


def values_of(model, needed):
    """Return (dense values, rows) as a step gives them: read-only NumPy arrays."""
    whole = {v.name: v.initial_value(0) for v in model.variables}
    for value in whole.values():
        value.flags.writeable = False
    dense = {v.name: whole[v.name] for v in model.variables if not v.sparse}
    return dense, {name: np.ascontiguousarray(whole[name][ids]) for name, ids in needed.items()}


def computed(model, batch):
    """Return (loss, gradients) of a microbatch."""
    return model.loss_and_gradients(*values_of(model, model.rows_needed(batch)), batch)


def moved(array, by=1):
    """Return a copy that lies ``by`` elements behind a multiple of 64 bytes, as an array may in an arena."""
    room = np.zeros(array.size + 64, array.dtype)
    first = -room.ctypes.data % 64 // array.itemsize + by
    room[first:first + array.size] = array.reshape(-1)
    return room[first:first + array.size].reshape(array.shape)


def hold_that_no_rank_has_it_whole(comm, trained, nbytes):
    """Hold that one rank refuses a table of so many bytes where it may have less, and more ranks give its answer.

    trained: trained(comm, **options) -> hash of the parameters.
    """
    limit = nbytes - 1
    if comm.size == 1:
        with pytest.raises(CollectiveError, match="the memory limit is"):
            trained(comm, memory_limit=limit)
    else:
        assert trained(comm, memory_limit=limit) == trained(MPI.COMM_SELF)
