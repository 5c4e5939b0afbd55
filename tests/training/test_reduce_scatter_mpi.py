"""An optimizer whose state and work are dealt out by rows: an N-th on each rank."""

import pytest
from toys import make_trainer

from kernels.update import OPTIMIZERS
from refimpl.strategies import ReduceScatter

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3)]
ALONE = dict(architecture="hybrid", shard_optimizer=True, overlap=False)  # all in one bucket


def state_bytes(trainer):
    """Return the bytes of the optimizer's state of dense variables that this rank holds."""
    return sum(array.nbytes for exchange in trainer.parameters.exchanges for shard in exchange.shards.values()
               if not shard.variable.sparse for array in shard.state.values())


def test_a_rank_holds_an_nth_of_the_state(comm):
    """Of its rows alone (tests/plan/test_cost.py: an N-th, within one), none of statistics; replicated, all of it."""
    for work, optimizer in (("toy", "adam"), ("cnn", "momentum")):
        slots = len(OPTIMIZERS[optimizer].state)
        trainer, whole = (make_trainer(work, optimizer, comm, **how) for how in (ALONE, dict(architecture="hybrid")))
        dense = [v for v in trainer.model.variables if not v.sparse]
        full = slots * sum(v.nbytes for v in dense if not v.statistic)
        mine = [piece for piece in ReduceScatter.pieces([(v, ReduceScatter()) for v in dense], comm.size)
                if piece.owner == comm.rank and not piece.variable.statistic]
        assert state_bytes(whole) == full and comm.allreduce(state_bytes(trainer)) == full
        assert state_bytes(trainer) == slots * 4 * sum(piece.size for piece in mine)
