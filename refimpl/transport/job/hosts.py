"""A file of hosts: which hosts it lists, which of them answer, and how mpirun starts ranks on them. Uses no MPI.

    node1 slots=2     # a host, and how many ranks it runs; node1:2 means the same, node1 alone one rank
    node2:2
"""

import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

AGENTS = {"mpich": "HYDRA_LAUNCHER_EXEC", "openmpi": "PRTE_MCA_plm_ssh_agent"}
"""MPI -> the environment variable with the command that replaces ssh."""

SSH = "ssh -o BatchMode=yes -o ConnectTimeout=5"
ANSWER_SECONDS = 10.0
"""The seconds that a host has to run ``true``. A host that takes longer counts as lost."""


class Host(NamedTuple):
    """A host: its ``name`` for ssh and the number of ``ranks`` that it runs."""

    name: str
    ranks: int


def read_hosts(path) -> list[Host]:
    """Return the hosts of a file, in its order. Local. Raises ValueError for a wrong line, OSError if unreadable."""
    hosts = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        text = line.partition("#")[0].strip()
        found = re.fullmatch(r"([^\s:,-][^\s:,]*)(?:(?::|\s+slots\s*=\s*)([0-9]+))?", text)
        if text and (not found or found[2] and int(found[2]) < 1):
            raise ValueError(f"line {number} of {path} is {text!r}; it should read HOST, HOST:RANKS or HOST "
                             "slots=RANKS")
        if text:
            hosts.append(Host(found[1], int(found[2] or 1)))
    names = [host.name for host in hosts]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{path} names {', '.join(twice)} twice: give each host one line, with all its ranks")
    return hosts


def answering(hosts: list[Host], flavour: str) -> list[Host]:
    """Return the hosts on which a command runs now. They are asked with the program that mpirun uses. Local.

    flavour: mpich or openmpi, as ``launch.Runtime`` says.
    """
    agent = shlex.split(os.environ.get(AGENTS[flavour], "") or SSH)

    def answers(host):
        try:
            return not subprocess.run([*agent, host.name, "true"], timeout=ANSWER_SECONDS, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        except subprocess.TimeoutExpired:
            return False

    with ThreadPoolExecutor(32) as pool:
        return [host for host, there in zip(hosts, pool.map(answers, hosts)) if there]


def placed(hosts: list[Host], ranks: int) -> list[Host]:
    """Return the hosts of ``ranks`` ranks, if each host in turn takes as many as it can. Local."""
    places, left = [], ranks
    for name, most in hosts:
        if left:
            places.append(Host(name, min(most, left)))
            left -= places[-1].ranks
    return places


def host_options(hosts: list[Host], flavour: str) -> list[str]:
    """Return mpirun's options to start ranks on these hosts, in their order. Local."""
    return ["-hosts" if flavour == "mpich" else "--host", ",".join(f"{host.name}:{host.ranks}" for host in hosts)]
