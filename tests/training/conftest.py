"""The helpers of these tests, ``toys`` and ``searching``, are modules beside them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def searching(comm, monkeypatch, mpi_tmp_path):
    """Trainings with a partition search, one after the other."""
    from searching import Searching

    return Searching(comm, monkeypatch, mpi_tmp_path)
