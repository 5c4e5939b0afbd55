"""What is known of the other ranks of a machine, and of their memory, where sums through shared memory fail."""

import os

import numpy as np
import pytest

from refimpl.collectives import make_schedule
from refimpl.collectives.running import shared
from refimpl.collectives.running.shared import SharedRunner
from refimpl.transport import CollectiveError, Communicator, SilentPeer, waiting
from refimpl.transport.memory import peer_memory
from refimpl.transport.memory.shared_memory import SharedWindow, _alive


def ended_child() -> int:
    """Return the process id of a child that has ended, and whose status nobody has asked for yet."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    return child


def test_memory_that_is_lost_is_told_from_a_rank_that_died():
    window = SharedWindow.open(Communicator.alone(), 64, "a test")
    with pytest.raises(SilentPeer, match="lost sight"):
        window.fail("lost sight")
    child = window.pids[0] = ended_child()
    with pytest.raises(SilentPeer, match="rank 0 died"):
        window.fail("lost sight")
    os.waitpid(child, 0)


def test_a_sum_that_waited_in_vain_goes_on_at_its_step():
    ends, begun = iter([0, 0, 2, -1]), []
    window = SharedWindow.open(Communicator.alone(), 64, "a test")
    assert window.do(lambda step, *_: begun.append(step) or next(ends)) == -1 and begun == [0, 0, 0, 2]


@pytest.fixture
def private(monkeypatch):
    """A runner of one rank's three private arrays where they lie, and the arrays."""
    monkeypatch.setattr(peer_memory, "LONG", 0)
    communicator = Communicator.alone()
    schedule = make_schedule("direct", 1, 7)
    runner = SharedRunner.open(schedule, communicator, 40001, np.empty(0), "sum", lambda a, b: {"v": b - a})
    return runner, [np.ones(40001) for _ in runner.slots]


def test_copies_of_others_arrays_are_aligned(private):
    runner, arrays = private
    assert len(arrays) == 3 and (runner(arrays) == 3).all()
    assert all(row.ctypes.data % 8 == 0 for row in runner._peers._copies)


def test_the_way_that_was_faster_is_taken_and_the_other_tried_at_times(private, monkeypatch):
    runner, arrays = private
    clock, takes, read_where_they_lie, copied_in_and_out = [0], [2, 5], [], runner._pipeline
    monkeypatch.setattr(shared.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(shared, "TRY_OTHER", 16)
    real = runner._peers.add_up

    def read(slots, addresses, willing):
        clock[0] += takes[0] * willing
        return real(slots, addresses, willing)

    def copied(addresses):
        clock[0] += takes[1]
        copied_in_and_out(addresses)

    monkeypatch.setattr(runner._peers, "add_up", read)
    monkeypatch.setattr(runner, "_pipeline", copied)
    for call in range(4 * shared.SAME_WAY * shared.TRY_OTHER):
        if call == 2 * shared.SAME_WAY * shared.TRY_OTHER:
            takes.reverse()
        for array in arrays:
            array[:] = 1
        assert (runner(arrays) == 3).all()
        read_where_they_lie.append(runner._direct)
    choices = read_where_they_lie[::shared.SAME_WAY]
    assert [kept for kept in choices for _ in range(shared.SAME_WAY)] == read_where_they_lie
    assert choices == [True, False, *[True] * 13, *[False, *[True] * 15] * 2, *[False] * 16, True]


@pytest.mark.parametrize("wrong, said", [([], "wants 3 inputs"), ([np.ones(5)], "of float64"),
                                         ([np.ones(80002)[::2]], "contiguous")])
def test_arrays_that_do_not_fit_are_refused(private, wrong, said):
    runner, arrays = private
    with pytest.raises(ValueError, match=said):
        runner(arrays[:2] + wrong)


def test_arrays_that_others_may_reach_outlive_a_sum_that_failed(private, monkeypatch):
    runner, arrays = private

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.window, "do", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runner(arrays)
    assert waiting._given_up.pop()[0] is arrays[0]


def test_an_ended_process_is_known_before_it_is_buried():
    child = ended_child()
    assert not _alive(child) and _alive(os.getpid())
    os.waitpid(child, 0)
    assert not _alive(child)


def test_too_little_shared_memory_is_said_before_it_kills():
    with pytest.raises(CollectiveError, match="MiB free, shared memory needs"):
        SharedWindow.open(Communicator.alone(), 1 << 60, "a test")
