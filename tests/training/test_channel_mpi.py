"""A training whose exchanges go through a tensor channel: the same bits and bytes, whatever else is chosen."""

import pytest
from toys import WORKS, make_options

from refimpl.training.session import train
from refimpl.transport import CollectiveError, Communicator
from refimpl.transport.channel.choice import WAYS
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi(min_size=2), pytest.mark.ranks(3)]
SETTINGS = {
    "hybrid": dict(architecture="hybrid"),
    "ps, overlapping": dict(architecture="ps", overlap=True),
    "rows to everybody, messages": dict(architecture="allreduce", shared_memory=False),
    "optimizer sharded": dict(architecture="hybrid", shard_optimizer=True),
}


def trained(comm, machines, **settings):
    """Return the hashes and bytes of a training."""
    communicator = Communicator(comm, in_blocks(comm.size, machines))
    found = train(WORKS["toy"][0](), WORKS["toy"][1](8), comm=communicator,
                  options=make_options("toy", "adam", device="cpu", allreduce="direct", **settings))
    return found.parameters_sha256, found.state_sha256, found.bytes, found.sent_per_step


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.thorough("ps, overlapping", "rows to everybody, messages")
def test_bits_and_bytes_are_those_of_messages(comm, settings):
    for each in (comm.size, 2) if settings["architecture"] == "ps" else (2,):
        expected = trained(comm, each, **settings)
        for way in WAYS:
            assert trained(comm, each, channel=way, **settings) == expected


def test_ranks_that_disagree_are_told(comm):
    with pytest.raises(CollectiveError, match="ask for different channels: rma on rank 0, landing on rank 1"):
        trained(comm, 1, channel="landing" if comm.rank else "rma")
