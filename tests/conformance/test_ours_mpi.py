"""Our own implementation under the suite: every architecture, any number of ranks."""

import pytest

from refimpl.conformance.adapters.ours import Ours
from refimpl.conformance.cases import all_cases
from refimpl.conformance.compare import judge
from refimpl.conformance.target import Target
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3, 4)]

SETTINGS = {
    "allreduce": {"architecture": "allreduce"},
    "as-dense": {"architecture": "allreduce", "sparse_as_dense": True},
    "ps": {"architecture": "ps"},
    "hybrid": {"architecture": "hybrid"},
    "partitions": {"architecture": "ps", "partitions": 4, "scheme": "interleaved"},
    "reduce-scatter": {"architecture": "hybrid", "shard_optimizer": True},
    "messages": {"architecture": "hybrid", "shared_memory": False, "overlap": True},
}
FEWER = {"partitions": ("rows", "resume"), "reduce-scatter": ("dense", "mixed", "update", "resume"),
         "messages": ("dense", "mixed", "update", "mesh")}
"""Settings that differ from others in these kinds of case alone."""


def failures(comm, adapter, kinds=None):
    """Return (verdicts that failed, cases that passed), on every rank."""
    target, failed, passed = Target(adapter), [], []
    for case in all_cases(comm.size):
        if kinds is None or case.kind in kinds:
            answers = comm.allgather(target.answer(case, comm.rank))
            verdict, _ = judge(case, target.semantics, answers)
            if verdict.status == "failed":
                failed.append((case.name, verdict.why))
            elif verdict.status == "passed":
                passed.append(case.name)
    return failed, passed


@pytest.mark.ranks(3)
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.thorough("partitions", "hybrid")
def test_every_architecture(comm, name):
    kinds = FEWER.get(name)
    failed, passed = failures(comm, Ours(Communicator.of(comm), **SETTINGS[name]), kinds)
    assert not failed
    assert kinds or {"dense/exact-float64", "rows/duplicates", "update/adam", "resume/momentum", "loss/unequal",
            "sampler/" + f"{4 * comm.size + 1}-examples", "random/streams", "owner/backup",
            "owner/dc-asgd", f"mesh/{comm.size}x1-odd"} <= set(passed)


@pytest.mark.mpi(min_size=4)
@pytest.mark.parametrize("settings", [{"allreduce": "hierarchical"}, {"architecture": "ps"},
                                      {"architecture": "ps", "local_aggregation": False}])
@pytest.mark.thorough("settings1")
def test_two_machines(comm, settings):
    kinds = ("rows",) if settings.get("architecture") == "ps" else ("dense", "rows")  # what machines aggregate
    failed, passed = failures(comm, Ours(Communicator(comm, in_blocks(comm.size, comm.size // 2)), **settings), kinds)
    assert not failed and passed


@pytest.mark.ranks(4)
@pytest.mark.parametrize("blocks, architecture", [(Ours.blocks, "hybrid"), (8, "allreduce")])
def test_layers_in_column_blocks(comm, blocks, architecture):
    """Other units of computation, the same exact sums."""
    adapter = Ours(Communicator.of(comm), architecture=architecture)
    adapter.blocks = blocks
    failed, passed = failures(comm, adapter, kinds=("mesh",))
    assert not failed and len(passed) == 15
