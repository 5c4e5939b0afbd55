"""How many ranks share a host's cores: what launchers say, ours first."""

import os
from types import SimpleNamespace

import pytest

from refimpl.transport import waiting
from refimpl.transport.job import host


@pytest.fixture(autouse=True)
def _nobody_says(monkeypatch):
    for name in host.LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    host.ranks_a_core.cache_clear()
    yield
    host.ranks_a_core.cache_clear()


def test_who_starts_ranks_says_how_many(monkeypatch):
    assert host.ranks_on_host() == 1 and host.ranks_on_host(otherwise=6) == 6
    monkeypatch.setenv("MPI_LOCALNRANKS", "2")
    assert host.ranks_on_host(otherwise=6) == 2
    monkeypatch.setenv(host.TOLD, "16")  # emulated machines of 2: MPI sees one of them
    assert host.ranks_on_host() == 16
    for nonsense in ("", "0", "many", "-3"):
        monkeypatch.setenv(host.TOLD, nonsense)
        assert host.ranks_on_host(otherwise=6) == 6


def test_the_more_ranks_share_a_core_the_sooner_they_sleep(monkeypatch):
    monkeypatch.setattr(host, "core_numbers", lambda process=0: [0, 1])
    for ranks, awake in ((1, 1e-3), (2, 1e-3), (3, 3e-4), (7, 3e-4), (8, 0), (48, 0)):
        monkeypatch.setenv(host.TOLD, str(ranks))
        host.ranks_a_core.cache_clear()
        assert waiting.awake_seconds(host.ranks_a_core()) == awake


@pytest.mark.parametrize("ranks, most", [(2, 300), (7, 300), (16, 200)])
def test_a_rank_that_waits_half_a_second_polls_a_few_hundred_times(monkeypatch, ranks, most):
    monkeypatch.setattr(waiting, "ranks_a_core", lambda: ranks)
    clock, sleeps = [0.0], []
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleeps.append))
    monkeypatch.setattr(waiting.os, "sched_yield", lambda: sleeps.append(50e-6))
    waiter = SimpleNamespace(beside=None, timeout=9.0, abort_messages=SimpleNamespace(check=lambda: None))
    wait = waiting.Wait(waiter, None, "", None)
    while clock[0] < 0.5:
        wait.pause()
        clock[0] += sleeps[-1] + 50e-6  # the kernel adds about as much
    assert sleeps[:5] == [50e-6] * 5 and len(sleeps) < most and max(sleeps) <= waiting.LONGEST_SLEEP


@pytest.mark.parametrize("ranks, beside, most", [(1, None, 22), (2, None, 8), (16, None, 2), (1, bool, 1)])
def test_short_polls_end_when_messages_have_come_or_it_is_time_to_sleep(monkeypatch, ranks, beside, most):
    """most: polls of 50 microseconds until a rank sleeps; one if it has to move other messages meanwhile."""
    monkeypatch.setattr(waiting, "ranks_a_core", lambda: ranks)
    polls, comes = [], [0]
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: 1 + 50e-6 * len(polls)))
    monkeypatch.setattr(waiting.os, "sched_yield", lambda: None)
    monkeypatch.setattr(waiting, "MPI", SimpleNamespace(Request=SimpleNamespace(
        Testall=lambda requests: polls.append(requests) or len(polls) == comes[0])))
    waiter = waiting.Waiter(0, 9.0, None)
    waiter.beside = beside
    assert not waiter.come_soon(["a"]) and polls == [["a"]] * len(polls) and most - 1 <= len(polls) <= most
    comes[0] = last = len(polls)
    polls.clear()
    assert waiter.come_soon(["a"]) and len(polls) == last


def test_ranks_that_are_bound_to_a_core_each_do_not_share_it(monkeypatch):
    monkeypatch.setenv(host.TOLD, "8")
    monkeypatch.setattr(host, "core_numbers", lambda process=0: list(range(8)) if process else [5])
    assert host.ranks_a_core() == 1


def test_a_process_that_cannot_be_seen_has_no_cores():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert host.core_numbers(child) in ([], host.core_numbers()) and host.cores() == len(host.core_numbers()) > 0
