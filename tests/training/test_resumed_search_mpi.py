"""A partition search that is stopped and resumed goes on with the samples that it has; elsewhere it starts again."""

import json
import re

import pytest
from mpi4py import MPI
from searching import SEARCH, STEPS, WALK, partitions_of
from toys import refusal

from refimpl.training.planning.partition_trials import PartitionTrials
from refimpl.training.run.checkpoint import read_manifest, steps_saved

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3)]


def answer_of(result):
    return result.parameters_sha256, result.state_sha256, result.partition_search


@pytest.mark.thorough("some")
@pytest.mark.parametrize("every,stops", [(1, (1, 7)), (2, (8, 13)), (1, range(1, SEARCH["steps"]))],
                         ids=["some", "few-2", "all"])
def test_wherever_it_stops_it_goes_on(searching, every, stops):
    whole = searching.run("whole")
    assert searching.tried == [(p, STEPS) for p in WALK[:-1]] + [(6, SEARCH["steps"] - STEPS * len(WALK[:-1]))]
    assert whole.partition_search["finished"] and whole.partition_search["chosen"] == 6
    for stop in stops:
        name, directory = f"stop-{stop}", searching.path / f"stop-{stop}"
        searching.run(name, stop=stop, every=every)
        complete, begin = divmod(searching.comm.bcast(steps_saved(directory)[-1]), STEPS)
        resumed = searching.run(name, resume=True)
        assert answer_of(resumed) == answer_of(whole), stop
        left, steps = WALK[complete:] or [6], SEARCH["steps"] - complete * STEPS - begin
        assert searching.tried == [(p, STEPS) for p in left[:-1]] + [(left[-1], steps - STEPS * len(left[:-1]))], stop
        if searching.comm.rank == 0:
            done = ", ".join(map(str, WALK[:complete])) or "no sample"
            assert f"partitions: the search goes on after {done}" in searching.said, stop
            plan = json.loads((directory / "plan.json").read_text())
            assert {len(placement["owners"]) for placement in plan["placements"] if placement["sparse"]} == {6}


@pytest.mark.thorough
def test_without_its_state_it_would_not(searching, monkeypatch):
    """The check above fails for a checkpoint that forgets the samples."""
    whole = searching.run("whole")
    monkeypatch.setattr(PartitionTrials, "state", lambda trials: None)
    searching.run(stop=7)
    resumed = searching.run(resume=True)
    assert resumed.parameters_sha256 == whole.parameters_sha256
    assert resumed.partition_search != whole.partition_search and searching.tried[0] == (WALK[0], STEPS)


@pytest.mark.thorough
def test_one_that_has_ended_is_not_begun_anew(searching):
    ended = searching.run(steps=16)
    for steps in (16, 20):
        resumed = searching.run(resume=True, steps=steps)
        assert resumed.partition_search == ended.partition_search and {p for p, _ in searching.tried} <= {6}


@pytest.mark.mpi(min_size=2)
def test_on_other_ranks_it_starts_again_and_says_so(searching):
    comm = searching.comm
    if comm.rank == 0:
        alone = searching.run(stop=7, comm=MPI.COMM_SELF, rate_steps=24)
        assert alone is None and read_manifest(searching.path / "run").search["walk"]["samples"]
    comm.Barrier()
    resumed = searching.run(resume=True, steps=24, rate_steps=24)
    assert searching.tried[0] == (WALK[0], STEPS)
    assert [s["partitions"] for s in resumed.partition_search["samples"]] == WALK
    told = "partitions: the search starts again, as its samples are of other ranks, "  # on a GPU allreduce, too
    assert comm.rank or any(line.startswith(told) and line.endswith("machines") for line in searching.said)


@pytest.mark.thorough("changes0")
@pytest.mark.parametrize("changes,words", [
    (dict(architecture="ps"), "architecture, (allreduce, )?placements"), (dict(partitions=8), "partitions"),
    (dict(memory_limit=10**9), "memory_limit"), (dict(local_aggregation=False), "local_aggregation")])
def test_under_another_plan_it_starts_again_and_says_so(searching, changes, words):
    searching.run(stop=7)
    searching.run(resume=True, **changes)
    assert partitions_of(searching.plans[0]) == changes.get("partitions", WALK[0])
    told = [said.partition("samples are of other ")[2] for said in searching.said if "starts again" in said]
    assert len(told) == (searching.comm.rank == 0) and all(re.fullmatch(words, names) for names in told)


@pytest.mark.thorough
def test_without_a_search_a_checkpoint_has_none_and_one_may_begin(searching):
    searching.run(steps=2, search_partitions=False)
    assert read_manifest(searching.path / "run").search is None
    assert searching.run(resume=True).partition_search["samples"][0]["partitions"] == 4
    assert searching.run(resume=True, search_partitions=False).partition_search is None


DAMAGES = [({"walk": {"start": "four"}}, r"Expected `int`, got `str` - at `$.walk.start`"),
           ({"walk": {"samples": {"4": -1.0}}}, "a sample is a positive time"),
           ({"walk": {"samples": {"99": 1.0}}}, "a sample at P = 99: P is from 1 to 50"),
           ({"walk": None}, "at `$.walk`"), ({"under": 3}, "at `$.under`")]


def test_a_damaged_state_is_refused_by_its_field(searching):
    searching.run(steps=5)
    right = read_manifest(searching.path / "run").search
    for change, words in DAMAGES:
        wrong = {name: {**right[name], **change[name]} if isinstance(change.get(name), dict)
                 else change.get(name, right[name]) for name in right}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("refimpl.training.session.load_checkpoint", lambda *_, state=wrong: state)
            said = refusal(searching.comm, lambda: searching.run(resume=True))
        assert "what the checkpoint has of a partition search is damaged" in said and words in said
        assert "resume with --no-search-partitions" in said
