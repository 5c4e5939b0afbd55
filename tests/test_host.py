"""How many ranks share a host's cores: what launchers say, ours first."""

import pytest

from refimpl import host


@pytest.fixture(autouse=True)
def _nobody_says(monkeypatch):
    for name in host.LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    host.crowded.cache_clear()
    yield
    host.crowded.cache_clear()


def test_who_starts_ranks_says_how_many(monkeypatch):
    assert host.ranks_on_host() == 1 and host.ranks_on_host(otherwise=6) == 6
    monkeypatch.setenv("MPI_LOCALNRANKS", "2")
    assert host.ranks_on_host(otherwise=6) == 2
    monkeypatch.setenv(host.TOLD, "16")  # emulated machines of 2: MPI sees one of them
    assert host.ranks_on_host() == 16
    for nonsense in ("", "0", "many", "-3"):
        monkeypatch.setenv(host.TOLD, nonsense)
        assert host.ranks_on_host(otherwise=6) == 6


def test_a_host_is_crowded_where_many_ranks_share_a_core(monkeypatch):
    monkeypatch.setattr(host, "cores", lambda: 2)
    for ranks, crowded in ((1, False), (2, False), (7, False), (8, True), (48, True)):
        monkeypatch.setenv(host.TOLD, str(ranks))
        host.crowded.cache_clear()
        assert host.crowded() == crowded
