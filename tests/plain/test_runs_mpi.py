"""The files of plain/ that need ranks show on any number of them what they promise."""

import re
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest

from models.recipe import build, recipe_of
from refimpl.plain import checkpoint
from refimpl.training.options import Options
from refimpl.training.session import train

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3, 4)]


@pytest.fixture
def shown(comm, capfd):
    """Return what ``main`` of a module prints, line by line, on every rank."""
    def run(module):
        import_module(f"refimpl.plain.{module}").main(comm)
        return comm.bcast(capfd.readouterr().out.splitlines())

    return run


def ones(count):
    """How a sum in which ``count`` ranks are counted once each looks to the base 4."""
    return "1" * count


def test_ring(comm, shown):
    [line] = shown("ring")
    sent, needed = re.search(r"it sent (\d+) B; .* are (\d+\.?\d*) B", line).groups()
    assert line.startswith(f"rank 0 has {[ones(comm.size)] * 12};")
    assert float(needed) == float(Fraction(2 * (comm.size - 1) * 96, comm.size))
    assert 12 % comm.size or sent == needed


@pytest.mark.ranks(3)
@pytest.mark.thorough
def test_layerwise(comm, shown):
    *trained, outside, inside, stale = [line for line in shown("layerwise") if line.startswith("rank 0: ")]
    hashes = [re.search("sha256 (.*)", line).group(1) for line in trained]
    assert len(set(hashes)) == 2 and outside[-6:] == inside[-6:] == "0.1875" != stale[-6:]
    for name, digest in zip(("lars", "lamb"), hashes):
        recipe, chosen = recipe_of("lm", {"steps": 3, "optimizer": name})
        assert train(*build(recipe, 0)[:2], options=Options(**chosen), comm=comm).parameters_sha256 == digest


def test_allreduce(comm, shown):
    lines = shown("allreduce")
    assert len(lines) == comm.size and len({line.partition("sum ")[2] for line in lines}) == 1
    assert lines[0].endswith("sum 8cb15bbf222e6abe9fd57b40…")


def test_server_and_replicas(comm, shown):
    """Row 0 is touched by all ranks, row 2 r and 2 r + 1 by rank r alone."""
    expected = {row: ones(comm.size) if row == 0 else "1" + "0" * (row // 2) for row in range(2 * comm.size)}
    lines = shown("server")
    for rank, line in enumerate(lines):
        own = list(range(rank, 2 * comm.size, comm.size))
        owned = {row: expected[row] for row in own}
        pulled = sorted({0, 2 * rank, 2 * rank + 1})
        assert line.startswith(f"rank {rank}: owns {own}, pulled {pulled}, summed {owned}, ")
    for line in shown("replicas"):
        assert f" summed {expected}, " in line


def test_dense_server(comm, shown):
    first, *others = shown("dense_server")
    assert first.startswith(f"rank 0: summed {ones(comm.size)}, sent ")
    assert f"'pull dense': {40 * (comm.size - 1)}" in first or comm.size == 1
    assert all("summed nothing" in line and "'push dense': 40" in line for line in others)


def test_reduce_scatter(comm, shown):
    owned = [round((r + 1) * 12 / comm.size) - round(r * 12 / comm.size) for r in range(comm.size)]
    for rank, (line, rows) in enumerate(zip(shown("reduce_scatter"), owned, strict=True)):
        sent = {"push dense": 8 * (12 - rows), "pull dense": 8 * rows * (comm.size - 1)} if comm.size > 1 else {}
        assert line == (f"rank {rank}: owns {rows} of 12 rows, Adam would keep {16 * rows} B for them; "
                        f"all pulled {{'{ones(comm.size)}'}}, sent {sent}")


def test_aggregation(comm, shown):
    lines = shown("aggregation")
    bare, local = lines[:comm.size], lines[comm.size:]
    bytes_of = [[int(re.search(r"machines (\d+) B", line).group(1)) for line in part] for part in (bare, local)]
    assert [re.search("summed {.*}", line).group() for line in bare] == \
           [re.search("summed {.*}", line).group() for line in local]
    assert f"{{0: '{ones(comm.size)}'" in bare[0]
    assert sum(bytes_of[1]) < sum(bytes_of[0]) or comm.size < 3
    if comm.size == 4:
        assert bytes_of == [[64] * 4, [32] * 4]


def test_hot_rows(comm, shown):
    lines = shown("hot_rows")
    sums = [{*re.findall("'(1+0*)'", line)} for line in lines]
    assert set().union(*sums[:comm.size]) == set().union(*sums[comm.size:]) == {
        ones(comm.size), *("1" + "0" * rank for rank in range(comm.size))}
    bytes_of = [sum(int(line.split()[-2]) for line in part) for part in (lines[:comm.size], lines[comm.size:])]
    assert bytes_of[1] < 0.8 * bytes_of[0] or comm.size == 1


@pytest.mark.mpi(min_size=2)
def test_hierarchical(comm, shown):
    lines = shown("hierarchical")
    assert {line.partition("sum ")[2] for line in lines} == {"8cb15bbf222e6abe9fd57b40…"}
    if comm.size == 4:
        assert all("sent 72 B to other machines, 0 B within" in line for line in lines[:4])
        assert all("sent 24 B to other machines, 48 B within" in line for line in lines[4:])


def test_checkpoint(comm, shown, monkeypatch):
    """Resumed on other ranks the hash is that of a training without a break; with parts in other places it is another."""
    recipe, chosen = recipe_of("lm", {"data": "synthetic", "preset": "tiny", "steps": 4, "rate_steps": 4})
    whole = train(*build(recipe, 0)[:2], options=Options(**chosen), comm=comm).parameters_sha256
    assert {line.split()[-1] for line in shown("checkpoint")} == {whole}
    if comm.size == 3:
        monkeypatch.setattr(checkpoint, "places", lambda rank, strategy, part: np.arange(part.size)[::-1])
        assert {line.split()[-1] for line in shown("checkpoint")} > {whole}


def test_agreement(comm, capfd):
    """One rank's error is everyone's; who comes too late is named by those who waited."""
    import_module("refimpl.plain.agreement").main(comm.Dup())
    end = "goes on" if comm.rank == 0 else f"stops: rank {comm.rank} has waited 0.5 s for ranks [0]"
    assert capfd.readouterr().out.splitlines() == [
        f"rank {comm.rank} goes on, then stops: rank {comm.size - 1}: the disk is gone, then {end}"]


def test_the_fast_system_says_the_same(comm):
    """Whoever brings an error, and whether all bring one: the same words, but for what all say alike."""
    from refimpl.plain.agreement import Stopped, agree
    from refimpl.transport import CollectiveError
    from refimpl.transport.agreement import Agreement

    plain, fast = comm.Dup(), Agreement(comm.Dup())
    for bringing in [(), (0,), (comm.size - 1,), tuple(range(0, comm.size, 2))]:
        words = f"the words of rank {comm.rank}" if comm.rank in bringing else ""
        said = []
        for goes in (lambda: agree(plain, words), lambda: fast.agree(ValueError(words) if words else None)):
            try:
                goes()
                said.append("")
            except (Stopped, CollectiveError) as error:
                said.append(str(error))
        assert said[0].removeprefix("rank 0: " if comm.size == 1 else "") == said[1] and bool(said[0]) == bool(bringing)
        assert len(set(comm.allgather(tuple(said)))) == 1


def test_groups(comm, shown):
    lines = shown("groups")
    meshes = sum(comm.size % k == 0 for k in (1, 2, 4))
    assert len(lines) == meshes * comm.size and {line.rpartition(" ")[2] for line in lines} == {"40db2bc0…"}
