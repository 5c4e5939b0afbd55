"""What is measured is one Network on all ranks, in bounded time, and is kept in a file until the machines change."""

import json
import time

import pytest
from mpi4py import MPI

from refimpl.collectives import CollectiveError, Wire
from refimpl.collectives.calibrate import calibrate, network_of
from refimpl.collectives.machines import in_blocks

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("each", [1, 2, 100])
def test_all_ranks_measure_one_network(each):
    wire = Wire(MPI.COMM_WORLD, machines=in_blocks(MPI.COMM_WORLD.size, each))
    begin = time.perf_counter()
    network = calibrate(wire, seconds=0.1)
    took = time.perf_counter() - begin
    assert len(set(wire.share_text(json.dumps(network.to_dict())))) == 1
    assert network.machines == wire.machines and network.ranks == wire.size
    assert took < 20  # far more than asked for: ranks may share a core with other programs
    if wire.size > 1:
        assert max(network.latency, network.latency_within) > 0
        assert wire.ledger.total("sent") > 0 and {phase for phase, *_ in wire.ledger.sent} == {"calibration"}
    for number, ranks in enumerate(wire.machines):
        assert len(ranks) == 1 or network.memory_bandwidth[number] > 1e6
        assert len(wire.machines) == 1 or min(network.bandwidth_out[number], network.bandwidth_in[number]) > 1e6
    assert network.reduction > 1e6


def test_it_is_kept_in_a_file_until_the_machines_change(comm, mpi_tmp_path):
    path, written = mpi_tmp_path / "network.json", []

    def write(where, value):
        written.append(value)
        where.write_text(json.dumps(value))

    wire = Wire(comm, machines=in_blocks(comm.size, 1))
    first = network_of(wire, path, write, 0.05)
    assert network_of(wire, path, write, 0.05) == first and len(written) == (wire.rank == 0)
    other = Wire(comm, machines=in_blocks(comm.size, 2))
    assert network_of(other, path, write, 0.05).machines == other.machines
    assert len(written) == (1 + (comm.size > 1)) * (wire.rank == 0)
    if wire.rank == 0:
        path.write_text("nonsense")
    assert network_of(wire, path, write, 0.05).machines == wire.machines
    assert network_of(wire, seconds=0.05).machines == wire.machines


def test_a_file_that_cannot_be_written_is_everyones_error(comm, mpi_tmp_path):
    def write(where, value):
        raise OSError("no space left")

    with pytest.raises(CollectiveError, match="no space left"):
        network_of(Wire(comm), mpi_tmp_path / "none" / "network.json", write, 0.05)
