"""Each file of plain/ runs by itself, shows what it promises, and the hybrid has the fast training's hash."""

import json
import re
from pathlib import Path

from refimpl.cli import main
from refimpl.plain.adding import tree
from refimpl.plain.collectives import schedule
from refimpl.plain.strategies import cost_table, search
from refimpl.transport.launch import launch

ROOT = Path(__file__).parents[2]


def run_on_ranks(ranks, module, *arguments):
    """Return the lines that ``mpirun -n RANKS python -m refimpl.plain.MODULE`` prints, which must end well."""
    job = launch(ranks, ["-m", f"refimpl.plain.{module}", *arguments], timeout=120, capture=True, cwd=ROOT)
    assert job.returncode == 0, job.stderr
    return job.stdout.splitlines()


def test_async_server_refuses_in_words():
    job = launch(2, ["-m", "refimpl.plain.without_barriers.async_server", "backup:2"], timeout=120, capture=True, cwd=ROOT)
    assert job.returncode and "backup:2: B must be a whole number, from 0 to 1, with 2 workers" in job.stderr
    assert "Traceback" not in job.stderr


def test_hybrid_has_the_hash_of_the_fast_training(capsys):
    assert main(["train", "lm", "--steps", "2", "--no-output", "--json", "--heldout", "100"]) == 0
    fast = json.loads(capsys.readouterr().out)
    printed = run_on_ranks(2, "training.hybrid", "lm", "--steps", "2")
    hashes = re.findall("parameters sha256 ([0-9a-f]{64})$", "\n".join(printed), re.MULTILINE)
    assert hashes == [fast["parameters_sha256"]] * 2
    assert printed[1].startswith(f"step 2  loss {fast['loss']:.4f}  norm ")


def test_tree_prints_one_sum_and_another(capsys):
    tree.main()
    sums = re.findall("sum ([0-9a-f]{32})", capsys.readouterr().out)
    assert len(sums) == 7 and len(set(sums[:6])) == 1 and sums[6] != sums[0]


def test_schedule_proves_two_and_refuses_one(capsys):
    schedule.main()
    ring, doubling, refused = capsys.readouterr().out.splitlines()
    assert ring.startswith("ring(4): proved; 6 rounds; the busiest rank sends 6 chunks; the least")
    assert doubling.startswith("halving_doubling(4): proved; 4 rounds; the busiest rank sends 6 chunks; the least")
    assert doubling.endswith("chunks are added as ((0+1)+(2+3))") and "((0+3)+1)+2)" in ring
    assert refused.startswith("ring without one message: refused: rank ")


def test_search_finds_the_lowest_point(capsys):
    search.main()
    assert capsys.readouterr().out.splitlines()[-1] == "t(P) = 0.100 + 0.240 / P + 0.0020 P; best: P = 11"


def test_cost_table_of_eight_machines(capsys):
    cost_table.main()
    assert "\n 8        28.000        28.000         0.560         2.240\n" in capsys.readouterr().out
