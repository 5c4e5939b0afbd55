"""The optimizer belongs to the variable (docs/design.md, I3): it touches rows in the gradient, and no other."""

import numpy as np
import pytest
from toys import BY_ROWS, RATES, Recording, Script, Scripted, Toy, make_options, make_trainer, toy_data, whole_state

from kernels.update import OPTIMIZERS
from refimpl.strategies import ReduceScatter
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3)]


def changed_rows(before, after):
    """Return the rows in which the bits of two arrays differ."""
    return {i for i in range(len(before)) if before[i].tobytes() != after[i].tobytes()}


@pytest.mark.parametrize("settings", BY_ROWS, ids=str)
@pytest.mark.parametrize("optimizer", RATES)
@pytest.mark.thorough("adam", "hybrid")
def test_untouched_rows_keep_every_bit(comm, optimizer, settings):
    """Weight decay, momentum's velocity and Adam's moments stay where no gradient is."""
    recording = Recording(Toy(rows=60))  # ids reach 49: ten rows are never touched
    trainer = Trainer.open(recording, toy_data(), make_options("toy", optimizer, **settings), comm)
    for _ in range(4):
        before = whole_state(trainer)
        recording.touched.clear()
        trainer.train_step()
        after = whole_state(trainer)
        everyone = [part for parts in comm.allgather(recording.touched) for part in parts]
        for name in ("table", "rare"):
            touched = set(np.concatenate([part[name] for part in everyone]).tolist())
            assert len(touched) < len(after[name, None])
            for key in after:
                if key[0] == name:
                    assert changed_rows(before[key], after[key]) <= touched
            if trainer.step > 1 or name == "table":
                assert changed_rows(before[name, None], after[name, None])


def states_of(comm, script, optimizer, settings, **more):
    """Return the whole state after each step of a script."""
    options = Options(**{"optimizer": optimizer, "learning_rate": 0.1, **settings, **more})
    trainer = Trainer.open(Scripted(), Script(script), options, comm)
    return [(trainer.train_step(), whole_state(trainer))[1] for _ in script]


@pytest.mark.parametrize("settings", BY_ROWS, ids=str)
@pytest.mark.parametrize("optimizer, moves", [("sgd", False), ("momentum", True), ("adagrad", False), ("adam", True)])
@pytest.mark.thorough("momentum", "hybrid")
def test_a_touched_row_with_a_zero_gradient_is_updated(comm, optimizer, moves, settings):
    """Row 1 gets a gradient, then a zero gradient; row 2 gets a gradient, then none: only row 1 may move again."""
    script = [[{1: [1, 2], 2: [1, 2]}, {5: [1, 1]}], [None, {1: [0, 0], 5: [3, 3]}]]
    before, after = states_of(comm, script, optimizer, settings)
    assert changed_rows(before["rows", None], after["rows", None]) == ({1, 5} if moves else {5})
    for key in after:
        if key[0] == "rows":
            assert changed_rows(before[key], after[key]) <= {1, 5}
            if key[1] in ("first", "second", "velocity"):
                assert changed_rows(before[key], after[key]) == {1, 5}  # the clock of a touched row ticks


@pytest.mark.parametrize("settings", BY_ROWS, ids=str)
def test_opposite_gradients_still_touch(comm, settings):
    """Gradients of two microbatches that cancel to 0.0 are a gradient: the row's velocity decays on every settings."""
    script = [[{3: [1, 1]}, {3: [1, 1]}], [{3: [2, -2]}, {3: [-2, 2], 0: [1, 1]}]]
    _, after = states_of(comm, script, "momentum", settings)
    assert (after["rows", "velocity"][3] == np.float32(0.9) * np.float32(2)).all()


@pytest.mark.parametrize("settings", BY_ROWS, ids=str)
def test_a_step_that_touches_nothing_changes_no_row(comm, settings):
    before, _, after = states_of(comm, [[{1: [1, 1]}, {}], [{}, None], [{}, {}]], "adam", settings, weight_decay=0.1)
    assert all(changed_rows(before[key], after[key]) == set() for key in after if key[0] == "rows")


def state_bytes(trainer):
    """Return the bytes of the optimizer's state of dense variables that this rank holds."""
    return sum(array.nbytes for exchange in trainer.parameters.exchanges for shard in exchange.shards.values()
               if not shard.variable.sparse for array in shard.state.values())


def test_a_rank_holds_an_nth_of_the_state(comm):
    """Of its rows alone (tests/plan/test_cost.py: an N-th, within one), none of statistics; replicated, all of it."""
    for work, optimizer in (("toy", "adam"), ("cnn", "momentum")):
        slots = len(OPTIMIZERS[optimizer].state)
        trainer, whole = (make_trainer(work, optimizer, comm, architecture="hybrid", **how)
                          for how in (dict(shard_optimizer=True, overlap=False), {}))  # all in one bucket
        dense = [v for v in trainer.model.variables if not v.sparse]
        full = slots * sum(v.nbytes for v in dense if not v.statistic)
        mine = [piece for piece in ReduceScatter.pieces([(v, ReduceScatter()) for v in dense], comm.size)
                if piece.owner == comm.rank and not piece.part.statistic]
        assert state_bytes(whole) == full and comm.allreduce(state_bytes(trainer)) == full
        assert state_bytes(trainer) == slots * 4 * sum(piece.part.size for piece in mine)
