"""What is measured is one Network on all ranks, in bounded time, and is kept in a file until the machines change."""

import json
import time
from itertools import combinations

import pytest
from mpi4py import MPI

from refimpl.collectives.simulation.calibrate import calibrate, network_of, pairs_of
from refimpl.transport import CollectiveError, Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]


@pytest.mark.parametrize("each", [1, 2, 100])
def test_all_ranks_measure_one_network(each):
    communicator = Communicator(MPI.COMM_WORLD, machines=in_blocks(MPI.COMM_WORLD.size, each))
    begin = time.perf_counter()
    network = calibrate(communicator, seconds=0.1)
    took = time.perf_counter() - begin
    assert len(set(communicator.share_text(json.dumps(network.to_dict())))) == 1
    assert network.machines == communicator.machines and network.ranks == communicator.size
    assert took < 20  # far more than asked for: ranks may share a core with other programs
    if communicator.size > 1:
        assert max(network.latency, network.latency_within) > 0
        assert communicator.ledger.total("sent") > 0
        assert {phase for phase, *_ in communicator.ledger.sent} == {"calibration"}
    for number, ranks in enumerate(communicator.machines):
        assert len(ranks) == 1 or network.memory_bandwidth[number] > 1e6
        assert len(communicator.machines) == 1 or min(network.bandwidth_out[number], network.bandwidth_in[number]) > 1e6
    assert network.reduction > 1e6
    for machine, speeds in enumerate(network.links):  # each link by itself; a card is as fast as its fastest
        assert speeds[machine] == 0 and max(speeds) == network.bandwidth_out[machine]
        assert min(speeds[:machine] + speeds[machine + 1:]) > 1e6
    assert len(network.links) == (0 if len(network.machines) == 1 else len(network.machines))


@pytest.mark.parametrize("ranks", range(1, 9))
def test_each_pair_meets_once_and_nobody_twice_in_a_round(ranks):
    rounds = pairs_of(range(10, 10 + ranks))
    met = sorted(tuple(sorted(pair)) for pairs in rounds for pair in pairs)
    assert met == list(combinations(range(10, 10 + ranks), 2))
    assert all(len({*sum(pairs, ())}) == 2 * len(pairs) == ranks - ranks % 2 for pairs in rounds)


def test_it_is_kept_in_a_file_until_the_machines_change(comm, mpi_tmp_path):
    path, written = mpi_tmp_path / "network.json", []

    def write(where, value):
        written.append(value)
        where.write_text(json.dumps(value))

    communicator = Communicator(comm, machines=in_blocks(comm.size, 1))
    first = network_of(communicator, path, write, 0.05)
    assert network_of(communicator, path, write, 0.05) == first and len(written) == (communicator.rank == 0)
    other = Communicator(comm, machines=in_blocks(comm.size, 2))
    assert network_of(other, path, write, 0.05).machines == other.machines
    assert len(written) == (1 + (comm.size > 1)) * (communicator.rank == 0)
    if communicator.rank == 0:
        path.write_text("nonsense")
    assert network_of(communicator, path, write, 0.05).machines == communicator.machines
    assert network_of(communicator, seconds=0.05).machines == communicator.machines


def test_a_file_that_cannot_be_written_is_everyones_error(comm, mpi_tmp_path):
    def write(where, value):
        raise OSError("no space left")

    with pytest.raises(CollectiveError, match="no space left"):
        network_of(Communicator.of(comm), mpi_tmp_path / "none" / "network.json", write, 0.05)
