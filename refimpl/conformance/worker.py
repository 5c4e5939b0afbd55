"""One rank of an adapter's job: runs the cases that it is told to, and writes its answers.

    python -m refimpl.conformance.worker ADAPTER FOLDER SECONDS

FOLDER/cases.json says which: [[number, name], ...]. A rank that raises where the others may be waiting for it ends the
job, and so does one that is SECONDS in a case; the runner goes on with the next case in a new one.
"""

import faulthandler
import json
import os
import sys
from pathlib import Path

from refimpl.conformance.target import Target, load, save
from refimpl.conformance.cases import case_named
from refimpl.transport.job import end_job

START_SECONDS = float(os.environ.get("REFIMPL_START_SECONDS", "120"))
"""How long importing an adapter, its world and its manifest may take."""


def main(arguments) -> int:
    """Run the cases as one rank. Returns 0, or 3 after a case that raised."""
    name, folder, seconds = arguments[0], Path(arguments[1]), float(arguments[2])
    faulthandler.dump_traceback_later(START_SECONDS, exit=True)  # a framework that waits for its peers for ever
    functions = load(name)
    if not hasattr(functions, "world"):
        raise ValueError(f"{name} has no world(): it must return (rank, size)")
    rank, size = map(int, functions.world())
    target = Target(functions)
    temporary = folder / f"manifest-{rank}.tmp"
    temporary.write_text(json.dumps({**target.semantics.to_json(), "ranks": size}))
    os.replace(temporary, folder / f"manifest-{rank}.json")
    faulthandler.cancel_dump_traceback_later()
    for number, case_name in json.loads((folder / "cases.json").read_text()):
        case = case_named(case_name, size)
        faulthandler.dump_traceback_later(seconds, exit=True)  # it needs no lock of Python's: a hang may hold it
        answer = target.answer(case, rank)
        faulthandler.cancel_dump_traceback_later()
        save(folder, number, rank, answer)
        if answer.error and not case.may_be_refused:
            print(f"{name}: {case.name}: rank {rank}: {answer.error}", file=sys.stderr, flush=True)
            return 3
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.exit(end_job(status) if status else 0)
