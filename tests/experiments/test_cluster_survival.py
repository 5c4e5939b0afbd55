"""A training on emulated machines survives: Open MPI's daemons start there, and its messages cross the cards."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from refimpl.experiments.cluster import ClusterError, run_on_cluster
from refimpl.experiments.cluster.description import Event
from refimpl.transport.launch import runtime

pytestmark = pytest.mark.skipif(runtime().flavour != "openmpi", reason="needs an MPI that outlives its ranks: Open MPI")
ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, sys
os.environ["REFIMPL_WATCH"] = "dying:Dying"  # instead of the cluster's own
from refimpl.cli import main
sys.exit(main())
"""


TRAIN = ["train", "lm", "--preset", "tiny", "--heldout", "200", "--no-output"]


def survive(machines, deaths, *options, **more):
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "training")))
    heartbeats = {"OMPI_MCA_mpi_ft_detector_timeout": "6", "OMPI_MCA_mpi_ft_detector_period": "0.75"}
    program = ["-c", PROGRAM] if deaths else ["-m", "refimpl"]  # with the cluster's account, as people have it
    try:
        return run_on_cluster(machines, 1, "1gbit", [*program, *TRAIN, "--survive", *options], 300, True,
                              {"PYTHONPATH": paths, "REFIMPL_DIE": deaths, **heartbeats}, **more)
    except ClusterError as missing:
        pytest.skip(str(missing))


def test_a_machines_only_rank_dies():
    job = survive(3, "2@3@0", "--steps", "4")
    assert job.returncode == 0 and "rank 2 died, ranks 0 1 go on" in job.stdout, job.stdout + job.stderr
    assert "sha256" in job.stdout and min(min(moved) for moved in job.machine_bytes) > 1_000_000


def test_the_larger_side_of_a_cut_cable_goes_on():
    steps = ["--steps", "400"]
    job = survive(4, "", *steps, "--slow-rank", "1=10x", "--timeout", "20", events=(Event(3, 0, 20.0),))
    assert "rank 3 died, ranks 0 1 2 go on" in job.stdout, job.stdout + job.stderr
    assert "Rank 3 would be too few, so this side ends" in job.stderr, job.stdout + job.stderr
    alone = subprocess.run([sys.executable, "-m", "refimpl", *TRAIN, *steps], capture_output=True, text=True, cwd=ROOT)
    hashes = re.findall("sha256 .*", job.stdout)
    assert len(hashes) == 2 and hashes == re.findall("sha256 .*", alone.stdout), job.stdout + job.stderr
    assert not job.training  # no account: the machine that was cut off has none
