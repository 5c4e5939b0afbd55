"""The stand-in finds races: work of two streams on one memory that nothing orders, and memory given back too early."""

import gc

import numpy as np
import pytest

from kernels import take_rows


@pytest.fixture
def xp(cupy, standin):
    return cupy


@pytest.fixture
def race(xp):
    from cupy import _races

    yield _races.RaceError
    gc.collect()
    _races._found.clear()


@pytest.fixture
def other(xp):
    return xp.cuda.Stream(non_blocking=True)


def event_of(xp, stream=None):
    event = xp.cuda.Event(disable_timing=True)
    event.record(stream)
    return event


WORKS = {
    "b + 1": lambda xp, a, b: b + 1, "a[...] = b": lambda xp, a, b: a.__setitem__(..., b),
    "a += 1": lambda xp, a, b: a.__iadd__(1), "out=": lambda xp, a, b: xp.exp(b, out=a),
    "fill": lambda xp, a, b: a.fill(0), "set": lambda xp, a, b: a.set(np.ones(8)),
    "concatenate": lambda xp, a, b: xp.concatenate([xp.ones(1), b]), "get": lambda xp, a, b: b.get(),
    "float": lambda xp, a, b: float(b[3:4].sum()), "b[ids]": lambda xp, a, b: b[xp.asarray(np.arange(3))],
    "copyto": lambda xp, a, b: xp.copyto(a, xp.ones(8)),
    "a kernel": lambda xp, a, b: take_rows(b.reshape(4, 2), np.arange(2)),
    "asarray": lambda xp, a, b: xp.array(b), "matmul": lambda xp, a, b: b.reshape(2, 4) @ xp.ones(4),
}
"""What a second stream may do with arrays of the first, where it must be found."""


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.thorough("copyto", "a kernel")
def test_what_two_streams_do_must_be_ordered(xp, race, other, name):
    a, b = xp.zeros(8), xp.zeros(8)
    b[...] = 1
    with other, pytest.raises(race, match=r"an array float64 \(8,\) \(allocated at device/test_races.py:\d+\): stream "
                                          r"\d+ \(made at device/test_races.py:\d+\) (reads|writes) it .* not ordered "
                                          r"after the default stream"):
        WORKS[name](xp, a, b)
    other.wait_event(event_of(xp))
    with other:
        WORKS[name](xp, a, b)


def test_an_event_orders_only_what_was_asked_for_before_it(xp, race, other):
    a = xp.zeros(3)
    event = event_of(xp)
    a += 1
    other.wait_event(event)
    with other, pytest.raises(race):
        a.sum()


def test_what_is_read_by_two_streams_may_be_written_after_both(xp, race, other):
    a, third = xp.zeros(3), xp.cuda.Stream(non_blocking=True)
    other.wait_event(event_of(xp))
    third.wait_event(event_of(xp))
    for stream in (other, third):
        with stream:
            _ = a + 1
    xp.cuda.get_current_stream().wait_event(event_of(xp, other))
    with pytest.raises(race, match="the default stream writes it .* not ordered after stream"):
        a[0] = 1
    xp.cuda.get_current_stream().wait_event(event_of(xp, third))
    a[0] = 1


def test_views_that_do_not_meet_may_be_used_at_once(xp, race, other):
    a = xp.zeros((4, 3))
    other.wait_event(event_of(xp))
    with other:
        a[:2] += 1
    a[2:] += 1
    assert a[2:].T.shape == (3, 2) and a.reshape(12).shape == (12,)  # to look from another side is not to read
    take_rows(a, np.array([2, 3]))
    with pytest.raises(race):
        take_rows(a, np.array([1, 3]))


def test_what_the_host_has_waited_for_is_done(xp, race, other):
    for wait in (lambda: other.synchronize(), lambda: event.synchronize(), lambda: event.done, lambda: other.done,
                 lambda: xp.cuda.Device().synchronize()):
        a = xp.zeros(3)
        other.wait_event(event_of(xp))
        with other:
            a += 1
        event = event_of(xp, other)
        with pytest.raises(race):
            a.sum()
        wait()
        a.sum()


def test_streams_that_are_not_made_non_blocking_wait_for_the_default_one(xp, race):
    a, stream = xp.zeros(3), xp.cuda.Stream()
    with stream:
        a += 1
    a += 1


def test_memory_that_comes_from_the_pool_may_be_in_use_until_the_stream_is_waited_for(xp, race, other):
    with other:
        a = xp.empty(3)
    with pytest.raises(race):
        a.fill(0)


def test_memory_is_given_back_after_its_last_use(xp, race, other):
    from cupy import _races

    def used_by_both(is_waited_for):
        a = xp.zeros(3)
        other.wait_event(event_of(xp))
        with other:
            _ = a[1:] + 1
        if is_waited_for:
            xp.cuda.get_current_stream().wait_event(event_of(xp, other))

    used_by_both(True)
    _races.raise_found()
    used_by_both(False)
    with pytest.raises(race, match=r"an array float64 \(3,\) .* is given back to the pool of the default stream while "
                                   r"stream \d+ .* uses it .*: keep it until"):
        xp.zeros(1)


def test_a_copy_to_the_host_that_is_not_waited_for_is_rubbish(xp, race):
    a, host = xp.ones(3), np.zeros(3)
    a.get(out=host, blocking=False)
    assert not (host == 1).any()
    xp.cuda.get_current_stream().synchronize()
    assert (host == 1).all()
