"""A training on emulated machines survives: Open MPI's daemons start there, and its messages cross the cards."""

import os
from pathlib import Path

import pytest

from refimpl.experiments.cluster import ClusterError, run_on_cluster
from refimpl.transport.launch import runtime

pytestmark = pytest.mark.skipif(runtime().flavour != "openmpi", reason="needs an MPI that outlives its ranks: Open MPI")
ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, sys
os.environ["REFIMPL_WATCH"] = "dying:Dying"  # instead of the cluster's own
from refimpl.cli import main
sys.exit(main())
"""


def test_a_machines_only_rank_dies():
    arguments = ["train", "lm", "--preset", "tiny", "--steps", "4", "--heldout", "200", "--no-output", "--survive"]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "training")))
    try:
        job = run_on_cluster(3, 1, "1gbit", ["-c", PROGRAM, *arguments], 120, True,
                             {"PYTHONPATH": paths, "REFIMPL_DIE": "2@3@0"})
    except ClusterError as missing:
        pytest.skip(str(missing))
    assert job.returncode == 0 and "rank 2 died, ranks 0 1 go on" in job.stdout, job.stdout + job.stderr
    assert "sha256" in job.stdout and min(min(moved) for moved in job.machine_bytes) > 1_000_000
