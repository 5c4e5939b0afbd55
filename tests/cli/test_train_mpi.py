"""The command line of a training on several ranks, each of which calls it: refusals and notes that all share."""

import pytest

from refimpl.cli import main

TINY = ["train", "lm", "--data", "synthetic:300", "--preset", "tiny", "--microbatch-size", "3", "--window", "5",
        "--steps", "6", "--heldout", "200"]
APART = [
    (["--seed", "1"], ["--seed", "2"], "seed is 1 on rank 0, 2 on rank 1"),
    (["--set", "hidden=12"], ["--set", "hidden=13"], "variable lstm0/kernel is"),
    (["--data", "synthetic:300"], ["--data", "synthetic:301"], "data is"),
    (["--partitions", "2"], ["--partitions", "3"], "partitions is 2 on rank 0, 3 on rank 1"),
    (["--steps", "6"], ["--steps", "7"], "steps is 6 on rank 0, 7 on rank 1"),
    ([], ["--data", "text:/nowhere"], "rank 1: "),
]
REFUSED = [
    (["--output", "/proc/none/run"], "cannot write to run directory"),
    (["--data", "nonsense"], "no data called 'nonsense'"),
    (["--data", "digits"], "lm does not train on 'digits'"),
    (["--preset", "huge"], "no preset 'huge'; it has"),
    (["--set", "depth=3"], "no size depth; it has"),
    (["--microbatches", "6", "--allreduce", "halving-doubling"], "--allreduce direct"),
    (["--resume", "/nowhere"], "/nowhere is no directory: give the run directory of a training"),
]


@pytest.mark.mpi(min_size=2)
@pytest.mark.ranks(2)
@pytest.mark.parametrize("first, second, words", [*APART, *((both, both, words) for both, words in REFUSED)])
def test_every_rank_says_the_same(comm, capsys, tmp_path, monkeypatch, first, second, words):
    monkeypatch.chdir(tmp_path)
    status = main([*TINY, *(first, second)[comm.rank]])
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("refimpl: error: ")]
    assert status == 1 and len(said) == 1 and words in said[0]
    assert comm.allgather(said) == [said, said]


@pytest.mark.mpi(min_size=3)
@pytest.mark.ranks(3)
@pytest.mark.parametrize("microbatches, told", [("2", 1), ("3", 0)])
def test_ranks_that_have_nothing_to_do_are_told(comm, capsys, microbatches, told):
    assert main([*TINY, "--no-output", "--microbatches", microbatches]) == 0
    printed = "".join(comm.allgather(capsys.readouterr().out))
    note = "note: only 2 of 3 ranks have a microbatch to compute: give --microbatches 3 or more, or start 2 ranks\n"
    assert printed.count(note) == told and printed.count("note:") == told
