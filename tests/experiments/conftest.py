"""Where this machine cannot emulate a cluster, the tests that need one are skipped, and say why."""

import pytest

from refimpl.experiments.cluster import missing


@pytest.fixture(scope="session")
def cluster():
    if reason := missing():
        pytest.skip(f"no cluster here: {reason}")
