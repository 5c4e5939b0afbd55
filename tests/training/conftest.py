"""What tests of partition searches share."""

import pytest


@pytest.fixture
def searching(comm, monkeypatch, mpi_tmp_path):
    """Trainings with a partition search, one after the other."""
    from searching import Searching

    return Searching(comm, monkeypatch, mpi_tmp_path)
