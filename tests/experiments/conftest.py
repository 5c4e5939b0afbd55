"""Where this machine cannot emulate a cluster, the tests that need one are skipped, and say why."""

import pytest

from refimpl.experiments.cluster import missing
from refimpl.transport.launch import runtime


@pytest.fixture(scope="session")
def cluster_of_any_mpi():
    if reason := missing():
        pytest.skip(f"no cluster here: {reason}")


@pytest.fixture(scope="session")
def cluster(cluster_of_any_mpi):
    if runtime().flavour != "mpich":
        pytest.skip("written for messages that leave at once, as MPICH's do there")
