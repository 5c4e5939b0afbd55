"""Mixed precision, plainly: a power of two moves no bit, all ranks leave out the same steps, a state goes on elsewhere."""

import numpy as np
import pytest
from mpi4py import MPI

from refimpl.plain.messages import Messages
from refimpl.plain.training.mixed_precision import LossScale, MixedTraining, half

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]


def training(comm, kind="fp16", scale=2.0**16, loud=1.0, **told):
    return MixedTraining(Messages(comm), kind, LossScale(scale, **told), loud)


def test_a_power_of_two_moves_no_bit_where_nothing_vanishes_or_overflows(comm):
    for kind, scales in (("bf16", (1, 2**5, 2**30)), ("fp16", (2**10, 2**13, 2**15))):
        found = set()
        for scale in scales:
            some = training(comm, kind, float(scale), patience=99)
            assert all(some.step() for _ in range(5))
            found.add(some.sha256())
        assert len(found) == 1, kind


def test_without_a_scale_fp16_loses_small_gradients():
    found = [np.count_nonzero(training(MPI.COMM_SELF, scale=scale).gradients(1)) for scale in (2.0**-15, 2.0**10)]
    assert found[0] < found[1]


def test_all_ranks_leave_out_what_one_cannot_hold(comm):
    alone, together = training(MPI.COMM_SELF, loud=16.0), training(comm, loud=16.0)
    before, done = together.sha256(), []
    for _ in range(8):
        done.append(together.step())
        assert alone.step() == done[-1] and together.sha256() == alone.sha256()
        assert comm.allgather((done, together.loss_scale.scale)) == [(done, alone.loss_scale.scale)] * comm.size
        assert (together.sha256() == before) == (True not in done)
    assert True in done and False in done


@pytest.mark.mpi(min_size=2)
def test_ranks_that_decide_by_themselves_part(comm):
    """What the agreement is for: without it a rank would wait in the allreduce for one that leaves the step out."""
    some = training(comm, loud=16.0)
    own = not all(np.isfinite(some.gradients(v)).all() for v in range(comm.rank, 8, comm.size))
    assert comm.allgather(own) == [True] + [False] * (comm.size - 1)


@pytest.mark.mpi(min_size=2)
def test_scale_and_count_belong_to_the_state(comm):
    whole, first = training(comm, loud=2.0), training(MPI.COMM_SELF, loud=2.0)
    for some, steps in ((whole, 9), (first, 4)):
        for _ in range(steps):
            some.step()
    state = first.loss_scale
    assert state.good
    ends = []
    for good in (state.good, 0):
        resumed = training(comm, scale=state.scale, good=good, loud=2.0)
        resumed.masters, resumed.steps_done = [w.copy() for w in first.masters], first.steps_done
        for _ in range(5):
            resumed.step()
        ends.append((resumed.sha256(), resumed.loss_scale.scale, resumed.loss_scale.good))
    assert ends[0] == (whole.sha256(), whole.loss_scale.scale, whole.loss_scale.good) != ends[1]


@pytest.mark.ranks(1)
def test_the_scale_halves_at_once_and_doubles_after_some_good_steps():
    scale, seen = LossScale(8.0, patience=2), []
    for overflows in (True, False, False, False, True, False, False):
        scale.learn(overflows)
        seen.append(scale.scale)
    assert seen == [4, 4, 8, 8, 4, 4, 8]


@pytest.mark.ranks(1)
@pytest.mark.parametrize("kind, largest", [("fp16", 65504.0), ("bf16", 3.3895314e38)])
def test_half_rounds_to_16_bits(kind, largest):
    x = np.array([[1 + 2.0**-12, largest], [-0.0, 1 / 3]], np.float32)
    found = half(x, kind)
    assert found.shape == (2, 2) and found[0, 0] == 1 and found[0, 1] == np.float32(largest) and np.signbit(found[1, 0])
    assert half(found, kind).tobytes() == found.tobytes() and found[1, 1] != x[1, 1]
