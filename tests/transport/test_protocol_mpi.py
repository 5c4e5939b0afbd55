"""Every transport fulfils the protocol: its members and their arguments, and what they do, for each kind of array."""

import inspect

import numpy as np
import pytest

from refimpl.transport import Communicator, Transport
from refimpl.transport.protocol import Pending, Prepared

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3)]
KINDS = ("mpi", "staged", "nccl")


@pytest.fixture(params=KINDS)
def opened(comm, request):
    """A communicator, the transport of that name, and what makes arrays for it of NumPy's."""
    communicator = Communicator.of(comm)
    if request.param == "mpi":
        return communicator, communicator.host_transport, np.array
    cupy = request.getfixturevalue("cupy")
    communicator.add_device(0, request.param)
    return communicator, communicator.device_transport, cupy.asarray


def value(array):
    return array.get() if hasattr(array, "get") else array


def neighbours(communicator):
    return (communicator.rank + 1) % communicator.size, (communicator.rank - 1) % communicator.size


def assert_fulfils(thing, protocol):
    assert isinstance(thing, protocol)
    for name, meant in inspect.getmembers(protocol, inspect.isfunction):
        if not name.startswith("_"):
            wanted = list(inspect.signature(meant).parameters.values())[1:]
            found = list(inspect.signature(getattr(thing, name)).parameters.values())
            assert [(p.name, p.default is p.empty) for p in wanted] == \
                [(p.name, p.default is p.empty) for p in found[:len(wanted)]], name
            assert all(p.default is not p.empty for p in found[len(wanted):]), name


def test_members_and_arguments_are_the_protocols(opened):
    communicator, transport, make = opened
    assert_fulfils(transport, Transport)
    assert transport.name in KINDS and isinstance(transport.reason, str)
    assert communicator.transport_of(make(np.zeros(3))) is transport
    assert_fulfils(transport.start([], [], "nothing"), Pending)
    prepared = transport.prepare([], [], "nothing")
    assert_fulfils(prepared, Prepared)
    prepared.free()


def test_what_is_started_arrives_in_order(opened):
    communicator, transport, make = opened
    following, preceding = neighbours(communicator)
    out = [make(np.full(3 + k, 10 * communicator.rank + k)) for k in range(3)]
    into = [make(np.zeros_like(value(array))) for array in out]
    pending = transport.start([(following, a) for a in out], [(preceding, a) for a in into], "a test")
    pending.wait()
    transport.settle()
    assert [value(a).tolist() for a in into] == [[10 * preceding + k] * (3 + k) for k in range(3)]


def test_what_is_prepared_moves_as_often_as_it_is_started(opened):
    communicator, transport, make = opened
    following, preceding = neighbours(communicator)
    lanes = 2 if transport.name == "mpi" else 1
    out, into = ([make(np.zeros(4)) for _ in range(lanes)] for _ in range(2))
    prepared = [transport.prepare([(following, out[j])], [(preceding, into[j])], "a test", j) for j in range(lanes)]
    for turn in range(3):
        for lane in (range(lanes) if communicator.rank % 2 else reversed(range(lanes))):  # lanes keep no order
            out[lane][...] = 100 * turn + 10 * lane + communicator.rank
            prepared[lane].start()
        left = list(prepared)
        while left:
            through = transport.wait_some(left)
            assert through and all(one in left for one in through)
            left = [one for one in left if one not in through]
        transport.settle()
        assert [value(a).tolist() for a in into] == [[100 * turn + 10 * j + preceding] * 4 for j in range(lanes)]
        communicator.meet()
    for one in prepared:
        one.free()


def test_a_lane_that_a_transport_has_not_is_refused(opened):
    communicator, transport, make = opened
    if transport.name != "mpi":
        with pytest.raises(ValueError, match="a test: device arrays travel in one lane, 0, not in lane 2"):
            transport.prepare([], [], "a test", 2)


def test_a_transport_that_is_closed_may_be_closed_again(opened):
    _, transport, _ = opened
    transport.close()
    transport.close()
    transport.settle()
