"""The files of plain/ that need ranks show on any number of them what they promise."""

import re
from importlib import import_module

import numpy as np
import pytest

from models.recipe import build, recipe_of
from refimpl.plain.training import checkpoint
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


@pytest.mark.parametrize("module", ["server", "replicas", "dense_server", "reduce_scatter", "aggregation", "hot_rows"])
def test_each_rank_is_counted_once(comm, shown, module):
    """Rank r pushes 4**r for a row that all ranks touch, and some for one that it touches alone."""
    found = {digits for line in shown(f"strategies.{module}") for digits in re.findall(r"(?:summed |')(1[01]*)\b", line)}
    assert ones(comm.size) in found <= {ones(comm.size), *("1" + "0" * rank for rank in range(comm.size))}


def test_ring(comm, shown):
    [line] = shown("collectives.ring")
    sent, needed = re.search(r"it sent (\d+) B; .* are (\d+\.?\d*) B", line).groups()
    assert line.startswith(f"rank 0 has {[ones(comm.size)] * 12};") and (12 % comm.size or sent == needed)


@pytest.mark.parametrize("module", ["allreduce", pytest.param("hierarchical", marks=pytest.mark.mpi(min_size=2))])
def test_every_rank_has_the_same_sum(comm, shown, module):
    assert {line.partition("sum ")[2] for line in shown(f"collectives.{module}")} == {"8cb15bbf222e6abe9fd57b40…"}


@pytest.mark.ranks(3)
@pytest.mark.thorough
def test_layerwise(comm, shown):
    hashes = [re.search("sha256 (.*)", line).group(1) for line in shown("training.large_batches") if line.startswith("rank 0: ")]
    assert len(set(hashes)) == 2
    for name, digest in zip(("lars", "lamb"), hashes):
        recipe, chosen = recipe_of("lm", {"steps": 3, "optimizer": name})
        assert train(*build(recipe, 0)[:2], options=Options(**chosen), comm=comm).parameters_sha256 == digest


@pytest.mark.ranks(1, 3)
def test_checkpoint(comm, shown, monkeypatch):
    """Resumed on other ranks the hash is that of a training without a break; with parts in other places it is another."""
    recipe, chosen = recipe_of("lm", {"data": "synthetic", "preset": "tiny", "steps": 4, "rate_steps": 4})
    whole = train(*build(recipe, 0)[:2], options=Options(**chosen), comm=comm).parameters_sha256
    assert {line.split()[-1] for line in shown("training.checkpoint")} == {whole}
    if comm.size == 3:
        monkeypatch.setattr(checkpoint, "places", lambda rank, strategy, part: np.arange(part.size)[::-1])
        assert {line.split()[-1] for line in shown("training.checkpoint")} > {whole}


@pytest.mark.ranks(1, 3)
def test_agreement(comm, capfd):
    """One rank's error is everyone's; who comes too late is named by those who waited."""
    import_module("refimpl.plain.training.agreement").main(comm.Dup())
    end = "goes on" if comm.rank == 0 else f"stops: rank {comm.rank} has waited 0.5 s for ranks [0]"
    assert capfd.readouterr().out.splitlines() == [
        f"rank {comm.rank} goes on, then stops: rank {comm.size - 1}: the disk is gone, then {end}"]


def test_the_fast_system_says_the_same(comm):
    """Whoever brings an error, and whether all bring one: the same words, but for what all say alike."""
    from refimpl.plain.training.agreement import Stopped, agree
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
    lines = shown("model_parallel.groups")
    meshes = sum(comm.size % k == 0 for k in (1, 2, 4))
    assert len(lines) == meshes * comm.size and {line.rpartition(" ")[2] for line in lines} == {"40db2bc0…"}
