"""A file of hosts: what it may say, who answers, and where ranks are placed."""

import stat

import pytest

from refimpl.transport.job.hosts import AGENTS, Host, answering, host_options, placed, read_hosts

HOSTS = [Host("node1", 2), Host("node2", 4), Host("10.0.0.3", 1)]


def test_hosts_are_read_in_order_whichever_way_they_are_written(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# ours\nnode1 slots=2\n\nnode2:4   # the large one\n10.0.0.3\n")
    assert read_hosts(file) == HOSTS


@pytest.mark.parametrize("text, says", [
    ("node1\nnode2 slots=0\n", "line 2 of .*'node2 slots=0'; it should read HOST, HOST:RANKS or HOST slots=RANKS"),
    ("node1 cpus=2\n", "line 1 of .*'node1 cpus=2'"),
    ("-oProxyCommand=evil\n", "line 1 of .*'-oProxyCommand=evil'"),
    ("node1,node2\n", "line 1 of .*'node1,node2'"),
    ("node1\nnode2\nnode1:3\n", "names node1 twice: give each host one line"),
])
def test_a_wrong_line_is_named(tmp_path, text, says):
    file = tmp_path / "hosts"
    file.write_text(text)
    with pytest.raises(ValueError, match=says):
        read_hosts(file)


@pytest.mark.parametrize("flavour", AGENTS)
def test_hosts_that_refuse_or_hang_are_left_out(tmp_path, monkeypatch, flavour):
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/sh\n[ "$1" = -q ] && shift\n'
                     'case $1 in node1) exit 255;; node2) exec sleep 60;; *) shift; exec "$@";; esac\n')
    agent.chmod(stat.S_IRWXU)
    monkeypatch.setenv(AGENTS[flavour], f"{agent} -q")
    monkeypatch.setattr("refimpl.transport.job.hosts.ANSWER_SECONDS", 2.0)
    assert answering(HOSTS, flavour) == [Host("10.0.0.3", 1)]


@pytest.mark.parametrize("ranks, expected", [
    (1, [("node1", 1)]), (3, [("node1", 2), ("node2", 1)]), (7, HOSTS), (6, HOSTS[:2])])
def test_each_host_in_turn_takes_as_many_ranks_as_it_runs(ranks, expected):
    assert placed(HOSTS, ranks) == expected


def test_launchers_are_told_alike():
    assert host_options(HOSTS, "mpich") == ["-hosts", "node1:2,node2:4,10.0.0.3:1"]
    assert host_options(HOSTS, "openmpi") == ["--host", "node1:2,node2:4,10.0.0.3:1"]
