"""The one room that knows MPI: who imports mpi4py, and who would wait in a call of MPI's that cannot be polled."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(path.relative_to(ROOT) for path in (ROOT / "refimpl").rglob("*.py"))
MAY_KNOW_MPI = ("refimpl/transport/", "refimpl/plain/")
RACE_MPI = {"refimpl/experiments/bench/allreduce/ranks.py"}
"""Here MPI's own allreduce is the peer that is raced."""

BLOCKING = {
    "Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv", "Alltoall", "Alltoallv",
    "Reduce", "Allreduce", "Reduce_scatter", "Scan", "Exscan", "Dup", "Split", "Split_type", "Create", "Create_group",
    "Allocate_shared", "Send", "Recv", "Sendrecv", "Ssend", "Probe", "Mprobe", "Wait", "Waitall", "Waitany", "Waitsome",
    "bcast", "gather", "scatter", "allgather", "alltoall", "allreduce", "sendrecv",
}
"""Calls of mpi4py's that wait for other ranks without an end."""

AFTER_A_MEETING = {("_find_machines", "Split_type"), ("first", "Create_group")}
"""(function, call) that has no form to be polled: all ranks have met in it before, and whoever is missing is named."""


@cache
def tree_of(path):
    return ast.parse((ROOT / path).read_text())


def modules(path):
    """Yield the modules that a file imports, wherever in it."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_mpi4py_is_imported_in_transport_and_plain_only():
    found = {str(path) for path in FILES if any(name.split(".")[0] == "mpi4py" for name in modules(path))}
    assert {name for name in found if not name.startswith(MAY_KNOW_MPI)} <= RACE_MPI


def calls(path):
    """Yield (function, name of the method, whether on something's ``mpi``) for each method call in a file."""
    def walk(node, function):
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
                owner = child.func.value
                yield inner, child.func.attr, isinstance(owner, ast.Attribute) and owner.attr == "mpi"
            yield from walk(child, inner)

    return walk(tree_of(path), "")


def test_nobody_else_calls_what_is_mpi4pys():
    found = {str(path) for path in FILES for _, _, raw in calls(path) if raw}
    assert found and {name for name in found if not name.startswith(MAY_KNOW_MPI)} <= RACE_MPI


@pytest.mark.parametrize("path", [path for path in FILES if str(path).startswith("refimpl/transport/")], ids=str)
def test_no_rank_waits_in_a_call_that_cannot_be_polled(path):
    waits = {(function, name) for function, name, _ in calls(path) if name in BLOCKING}
    taken = {("_come", "Recv")}  # of messages that Improbe has found: they are there
    alone = {("check_survival", "Dup")}  # of COMM_SELF
    assert waits - taken - alone <= AFTER_A_MEETING
    for function, name in waits & AFTER_A_MEETING:
        names = [called for inside, called, _ in calls(path) if inside == function]
        assert names.index("meet") < names.index(name)
