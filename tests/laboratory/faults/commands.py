"""The command of a job: this Python's mpirun, or that of another environment whose MPI is another one."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

from refimpl.transport.launch import LaunchError, mpirun_command

_ASK = "import json; from refimpl.transport.launch import mpirun_command as m; print(json.dumps(m({}, ['ARGUMENTS'])))"


@functools.cache
def _asked(python: str, ranks: int) -> tuple[list[str], dict[str, str]]:
    if python == sys.executable:
        return mpirun_command(ranks, ["ARGUMENTS"])
    try:
        answer = subprocess.run([python, "-c", _ASK.format(ranks)], capture_output=True, text=True)
        why = answer.stderr.strip().rpartition("\n")[2]
    except OSError as problem:
        answer, why = None, problem.strerror
    if answer is None or answer.returncode:
        raise LaunchError(f"--python {python}: {why}: name a Python that has refimpl and what it needs")
    argv, environment = json.loads(answer.stdout)
    return argv, environment


def command(python: str, ranks: int, arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return (argv, environment) of ``mpirun -n RANKS PYTHON ARGUMENTS``, as a user types it. Local.

    Raises LaunchError where that Python has no MPI.
    """
    argv, environment = _asked(python, ranks)
    at = argv.index("mpi4py") - 1  # users leave -m mpi4py out: refimpl ends its job itself
    return [*argv[:at], *arguments], path_with_us(environment)


def path_with_us(environment) -> dict[str, str]:
    """Return the environment in which a Python finds the model that the trials train. Local."""
    before = environment.get("PYTHONPATH")
    here = str(Path(__file__).parents[1])
    return {**environment, "PYTHONPATH": os.pathsep.join([here, before] if before else [here])}
