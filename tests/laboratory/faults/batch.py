"""What each rank of a shared job runs: the command lines of many trials, one after the other, as ``python -m refimpl``.

    python -m faults.batch DIRECTORY

DIRECTORY/tasks.json: a list of {"arguments", "environment"}. A rank writes out-TASK-RANK, err-TASK-RANK, and a line
"begin TASK" or "end TASK STATUS" to rank-RANK; what is trained leaves its marks in marks-TASK. A job takes seconds to
start: so many trials share one.
"""

import json
import os
import runpy
import sys
import traceback
from pathlib import Path

from faults import subject

NO_STATUS = 70  # an exception came out of refimpl's own main


def main(directory: str) -> int:
    """Run the tasks. Collective: every rank runs it."""
    place, rank = Path(directory), subject.rank()
    tasks = json.loads((place / "tasks.json").read_text())
    with open(place / f"rank-{rank}", "a", buffering=1) as journal:
        for number, task in enumerate(tasks):
            for stream, kind in ((1, "out"), (2, "err")):  # below Python: MPI's own words are the trial's, too
                file = os.open(place / f"{kind}-{number}-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(file, stream)
                os.close(file)
            journal.write(f"begin {number}\n")
            marks = {subject.MARKS: str(place / f"marks-{number}")}  # each task's are its own
            status = run_command(task["arguments"], {**task["environment"], **marks})
            sys.stdout.flush()
            sys.stderr.flush()
            journal.write(f"end {number} {status}\n")
    return 0


def run_command(arguments: list[str], environment: dict[str, str]) -> int:
    """Run ``python -m refimpl ARGUMENTS`` in this process; return its exit status. Collective."""
    os.environ.update(environment)
    sys.argv = ["refimpl", *arguments]
    try:
        runpy.run_module("refimpl", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        return NO_STATUS
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
