"""Shared jobs, of one rank here: one task that holds up or ends its job is found, and the others go on in a new one."""

import json
import os
import sys
from pathlib import Path

import pytest

from faults.batches import run_tasks
from faults.judge import answer_of, judge_shared
from faults.subject import arguments
from faults.workshop import task

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds a job's processes in /proc")


def here(ranks, given):
    """Return the command of a job without mpirun."""
    places = [Path(__file__).parent, Path(__file__).parents[2]]
    return [sys.executable, *given], {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}


def honest(*more):
    return task(arguments("--steps", "2", "--no-output", "--json", *more))


def lying(lie, where="rows_needed"):
    what = {"lie": lie, "where": where, "step": 0, "rank": 0}
    return task(arguments("--steps", "2", "--no-output", "--json", module="liar", model="Liar"), what)


def test_each_task_gets_its_own_end(tmp_path):
    tasks = [honest(), lying("sleeps"), lying("raises"), honest("--seed", "3"), lying("none"),
             task(["train", "--model", "planted_traceback:Model", "--data", "planted_traceback:draw"])]
    for bound in (3.0, 12.0, 48.0):  # until it is time enough for an honest task
        found = run_tasks(tasks, 1, here, tmp_path / "shared", bound)
        if [told.hung for told in found].count(True) == 1:
            break
    reference = answer_of(found[0].stdouts[0])
    judged = [judge_shared(told, reference, 60.0) for told in found]
    assert judged == [
        ("right answer", []), ("hang", ["hang"]), ("refused in words", []),
        ("silent acceptance", ["silent acceptance"]), ("right answer", []),
        ("other end", ["traceback", "missing words on 1 of 1 ranks"])]
    assert "a planted error" in found[2].stderrs[0] and found[-1].statuses == [None]


def test_a_job_that_does_not_start_is_no_trials_fault(tmp_path):
    with pytest.raises(RuntimeError, match="did not start: planted"):
        run_tasks([task([])], 1, lambda *_: ([sys.executable, "-c", "raise SystemExit('planted')"], dict(os.environ)),
                  tmp_path / "shared", bound=5.0)


def test_what_a_task_carries_can_be_written_down():
    assert json.loads(json.dumps(lying("none"))) == lying("none")
