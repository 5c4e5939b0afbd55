"""``train --search-partitions`` as a person meets it: what is printed, what lies in the run directory."""

import json
import os
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from refimpl.cli import main

TINY = ["--data", "synthetic:300", "--preset", "tiny", "--microbatch-size", "3", "--window", "5", "--heldout", "200"]
SEARCH = ["--search-partitions", "--search-warmup", 0, "--search-sample", 1, "--steps", 12]


def train(*arguments):
    """Run train --json on one rank, in this process; return (exit status, result or None, stderr)."""
    command = ["train", "lm", *TINY, "--json", *map(str, arguments)]
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        status = main(command)
    return status, json.loads(out.getvalue()) if status == 0 else None, err.getvalue()


def test_a_search_is_told_plotted_and_changes_no_number(tmp_path):
    status, plain, stderr = train("--steps", 12, "--no-output")
    assert status == 0, stderr
    status, found, stderr = train(*SEARCH, "--hot-rows", 5, "--output", tmp_path / "run")
    assert status == 0, stderr
    assert found["parameters_sha256"] == plain["parameters_sha256"] and found["examples_per_second"] > 0
    search = found["partition_search"]
    assert search["finished"] and len(search["samples"]) >= 3 and len(search["theta"]) == 3
    assert {"partitions.png", "plan.json"} <= set(os.listdir(tmp_path / "run"))
    assert (tmp_path / "run" / "partitions.png").read_bytes().startswith(b"\x89PNG")
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert {(len(p["owners"]), p["hot"]) for p in plan["placements"] if p["sparse"]} == {(search["chosen"], 5)}


@pytest.mark.thorough
def test_a_searched_run_goes_on_without(tmp_path):
    """Options come from the checkpoint: a search among them can be ended, and what it cannot go with is told."""
    status, first, stderr = train(*SEARCH, "--steps", 6, "--output", tmp_path / "run")
    assert status == 0, stderr
    going_on = ["--resume", tmp_path / "run", "--steps", 8, "--architecture", "allreduce"]
    status, _, stderr = train(*going_on)
    assert status and "or resume with --no-search-partitions" in stderr
    status, found, stderr = train(*going_on, "--no-search-partitions")
    assert status == 0 and found["partition_search"] is None, stderr
