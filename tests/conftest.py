"""What every test run needs: one thread per process, and under mpirun a job that fails as one.

    python -m refimpl.transport.launch -n 4 -m pytest --with-mpi -m mpi

``--part quick``: every idea once (`make test`).  ``--part thorough``: the rest (`make test-all` runs both at once).  A
test marked ``thorough(NAME, ...)`` is of the rest; of its cases those whose id contains a NAME are quick.  One marked
``ranks(1, 3)`` shows the same on any number of ranks, and is run on these alone.

Under MPI rank 0 reports for all. A test that fails on every rank is an ordinary failure: the ranks go on together, and
the report shows how the others' tracebacks differ. A test that fails on some ranks leaves the others waiting for them,
so the job is aborted, after the failing ranks have printed their tracebacks.
"""

import os
import re
from pathlib import Path

ONE_THREAD = ("OPENBLAS", "OMP", "MKL", "NUMBA")
os.environ |= {f"{library}_NUM_THREADS": "1" for library in ONE_THREAD}  # read once, when NumPy or Numba is imported
os.environ["VECLIB_MAXIMUM_THREADS"] = "1"
# JAX compiles for longer than it computes here: what it has compiled is kept for later processes, as Numba keeps it
os.environ |= {"JAX_COMPILATION_CACHE_DIR": str(Path(__file__).parents[1] / "build" / "jax"),
               "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}

import functools  # noqa: E402
import gc  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402

import hypothesis  # noqa: E402
import pytest  # noqa: E402

SECONDS_PER_MPI_TEST = 300  # as of a test without MPI: on a machine that has much else to do only a hang takes so long
SECONDS_TO_FAIL_TOGETHER = 2.0
SECONDS_BETWEEN_POLLS = 1e-4
SECONDS_TO_PRINT = 1.0  # for every rank to say what it has to, and the launcher to pass it on, before the job ends
FEW_RANKS = 4  # with more, only tests that need more are run: the others have been
ASKS_FOR_MANY = re.compile(r"min_size=(?![1-4]\b)")  # more than FEW_RANKS, or a name
ENOUGH = re.compile(r"^pytestmark = .*mark\.ranks\(([\d, ]+)\)", re.MULTILINE)


def pytest_addoption(parser):
    parser.addoption("--part", choices=("quick", "thorough"), help="run every idea once, or the rest; without: both")


def _under_mpi(config) -> bool:
    return config.getoption("with_mpi", False)


def pytest_cmdline_main(config):
    if _under_mpi(config):
        config.option.timeout = config.option.timeout or SECONDS_PER_MPI_TEST


@pytest.hookimpl(trylast=True)  # after the terminal reporter that ranks above 0 silence
def pytest_configure(config):
    hypothesis.settings.register_profile(
        "refimpl",
        deadline=None,  # the first example compiles kernels
        # ranks must draw the same examples, and a red CI must be red again on the next run
        derandomize=_under_mpi(config) or "CI" in os.environ,
        database=None,
    )
    hypothesis.settings.load_profile("refimpl")
    if _under_mpi(config):
        from mpi4py import MPI

        config.pluginmanager.register(Job(MPI, config), "mpi-job")


def pytest_terminal_summary(terminalreporter, config):
    """Leave the numbers of tests where REFIMPL_TEST_REPORT says, for the report of ``bench gpu``."""
    job = config.pluginmanager.get_plugin("mpi-job")
    if (path := os.environ.get("REFIMPL_TEST_REPORT")) and (job is None or job.rank == 0):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        counts = {what: len(terminalreporter.stats.get(what, ())) for what in ("passed", "failed", "error", "skipped")}
        Path(path).write_text(json.dumps(counts))


def pytest_ignore_collect(collection_path, config):
    """Under MPI leave files alone that have no test for so many ranks: to import all on every rank outlasts them."""
    if _under_mpi(config) and collection_path.suffix == ".py":
        text, ranks = collection_path.read_text("utf-8"), _ranks(config)
        if "mark.mpi" not in text or ranks > FEW_RANKS and not ASKS_FOR_MANY.search(text):
            return True
        if ranks <= FEW_RANKS and (enough := ENOUGH.search(text)) and str(ranks) not in enough.group(1):
            return True
    return None


def pytest_runtest_setup(item):
    """Skip what asks for NCCL on a GPU where NCCL cannot serve: none, or too old for ranks that share a GPU.

    This is known from its version, before anything is tried: what fails then has failed.
    """
    if on_gpu() and "nccl" in item.name and (reason := why_no_nccl(_ranks(item.config))):
        pytest.skip(reason)


def why_no_nccl(ranks: int) -> str:
    """Return why NCCL, by its version, cannot serve so many ranks on one GPU; "" if it can."""
    from cupy.cuda import nccl

    from refimpl.transport.device.choice import RankGpu, choose_transport

    version = nccl.get_version() if nccl.available else 0
    try:
        choose_transport([RankGpu("that the tests run on", version)] * ranks, "nccl")
    except ValueError as problem:
        return str(problem)
    return ""


def _ranks(config) -> int:
    job = config.pluginmanager.get_plugin("mpi-job")
    return job.size if job else 1


def on_gpu() -> bool:
    """Return whether the tests shall run on a GPU (`make test-gpu` sets REFIMPL_TEST_DEVICE=cuda)."""
    return os.environ.get("REFIMPL_TEST_DEVICE") == "cuda"


def pytest_collection_modifyitems(config, items):
    """Deselect tests of the other part, and MPI tests that need more ranks or that smaller jobs have run."""
    part = config.getoption("part")
    wanted = [item for item in items if part in (None, "thorough" if _is_thorough(item) else "quick")]
    if _under_mpi(config):
        from mpi4py import MPI

        wanted = [item for item in wanted if _is_for(MPI.COMM_WORLD.size, item)]
    dropped = set(items).difference(wanted)
    config.hook.pytest_deselected(items=[item for item in items if item in dropped])
    items[:] = wanted


def _is_thorough(item) -> bool:
    mark, case = item.get_closest_marker("thorough"), item.name.partition("[")[2]
    return mark is not None and not any(name in case for name in mark.args)


def _is_for(size: int, item) -> bool:
    mark, enough = item.get_closest_marker("mpi"), item.get_closest_marker("ranks")
    needed = mark.kwargs.get("min_size", 1) if mark else 1
    if size > FEW_RANKS or needed > FEW_RANKS:
        return FEW_RANKS < needed <= size
    return needed <= size and (enough is None or size in enough.args)


def pytest_collection_finish():
    """Leave what was imported and collected out of garbage collections, each of which would look at all of it."""
    gc.collect()
    gc.freeze()


@functools.cache
def patient():
    """Return a kind of communicator whose ranks sleep until all of the job have come to a collective call.

    In MPI's own they poll, and where ranks outnumber cores those that work wait for the polls. They meet elsewhere: on
    the communicator itself a test may have left a collective call that not every rank has begun.
    """
    from mpi4py import MPI

    place = MPI.COMM_WORLD.Dup()

    def after_a_meeting(name):
        def call(self, *given, **options):
            request = place.Ibarrier() if self.size == place.size else MPI.REQUEST_NULL
            while not request.Test():
                time.sleep(SECONDS_BETWEEN_POLLS)
            return getattr(MPI.Intracomm, name)(self, *given, **options)

        return call

    names = "Dup", "Split", "Barrier", "barrier", "bcast", "gather", "allgather", "allreduce", "alltoall"
    return type("Patient", (MPI.Intracomm,), {name: after_a_meeting(name) for name in names})


@pytest.fixture(scope="session")
def world():
    """All ranks of this job (one, without mpirun), for what several tests share."""
    from mpi4py import MPI

    return patient()(MPI.COMM_WORLD)


@pytest.fixture(scope="session")
def shared(world):
    """shared(keys, compute) -> {key: compute(key)}. Collective: each rank of the job computes some of them."""
    def found(keys, compute):
        mine = {key: compute(key) for key in list(keys)[world.rank::world.size]}
        return {key: value for part in world.allgather(mine) for key, value in part.items()}

    return found


@pytest.fixture
def comm(world):
    """All ranks, on a communicator of this test's own."""
    own = world.Dup()
    yield own
    own.Free()


@pytest.fixture(scope="session")
def cupy():
    """CuPy's stand-in (tests/device/standin), imported once in a process; CuPy itself where that was imported before.

    And where the tests shall run on a GPU.
    """
    standin = str(Path(__file__).parent / "device" / "standin")
    if "cupy" not in sys.modules and standin not in sys.path and not on_gpu():
        sys.path.insert(0, standin)
    return importlib.import_module("cupy")


@pytest.fixture
def standin(cupy):
    """What only the stand-in for CuPy counts; where CuPy itself is imported, the test is skipped."""
    return cupy.__dict__.get("standin") or pytest.skip("CuPy itself is imported")


@pytest.fixture(autouse=True)
def no_memory_given_back_in_use():
    """CuPy's stand-in finds memory that is given back while another stream uses it, but cannot say so there."""
    yield
    if races := sys.modules.get("cupy._races"):
        races.raise_found()


class Job:
    """The pytest plugin that makes the ranks of an MPI job fail, and end, together."""

    def __init__(self, MPI, config):
        self.world = patient()(MPI.COMM_WORLD)
        self.failing = self.world.Dup()  # a stray message of a failed test cannot reach it
        self.rank, self.size = self.world.rank, self.world.size
        self.timer = None
        self.stderr = os.fdopen(os.dup(sys.__stderr__.fileno()), "w")  # not captured while a test runs
        if self.rank > 0:
            config.pluginmanager.unregister(name="terminalreporter")
            silent = pytest.TerminalReporter(config, open(os.devnull, "w"))
            config.pluginmanager.register(silent, "terminalreporter")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report):
        if report.failed and self.size > 1:
            own = (report.nodeid, report.when, _text(report))
            if not self._all_ranks_fail():
                self._abort(f"{report.nodeid} failed ({report.when}) and not on every rank", own[-1])
            reports = self.failing.allgather(own)
            if len({(nodeid, when) for nodeid, when, _ in reports}) > 1:
                self._abort("ranks failed in different tests", f"{report.nodeid} ({report.when})\n{own[-1]}")
            for rank, (_, _, text) in enumerate(reports):
                if text != reports[0][-1]:
                    report.sections.append((f"rank {rank} failed otherwise", text))

    def pytest_collection_finish(self, session):
        collected = self.world.allgather((session.testsfailed, [item.nodeid for item in session.items]))
        if any(other != collected[0] for other in collected):
            counts = [f"rank {r}: {len(ids)} tests, {errors} errors" for r, (errors, ids) in enumerate(collected)]
            self._abort("ranks collected different tests", "\n".join(counts))

    def pytest_collectreport(self, report):
        if report.failed and self.rank > 0:
            self._print(f"cannot collect {report.nodeid}", report.longreprtext)

    def pytest_internalerror(self, excrepr):
        self._abort("internal error", str(excrepr))

    def pytest_keyboard_interrupt(self, excinfo):
        self._abort("interrupted", str(excinfo))

    def pytest_timeout_set_timer(self, item, settings):
        """Take pytest-timeout's place: its signal waits for the blocked MPI call, its thread ends one rank alone."""
        self.timer = threading.Timer(settings.timeout, self._time_out, (item.nodeid, settings.timeout))
        self.timer.daemon = True
        self.timer.start()
        return True

    def pytest_timeout_cancel_timer(self, item):
        if self.timer:  # not before the first test: pytest-timeout asks for this after a failed collection too
            self.timer.cancel()
        return True

    def pytest_unconfigure(self):
        self.world.Barrier()  # some launchers end the job at the first rank's non-zero exit: rank 0 reports first

    def _all_ranks_fail(self) -> bool:
        """Return whether every rank comes here within SECONDS_TO_FAIL_TOGETHER."""
        together = self.failing.Ibarrier()
        end = time.monotonic() + SECONDS_TO_FAIL_TOGETHER
        while not together.Test():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def _time_out(self, nodeid: str, seconds: float) -> None:
        """In the timer's thread: say where the main thread is, and end the job when every rank has."""
        where = sys._current_frames()[threading.main_thread().ident]
        self._print(f"Timeout: {nodeid} not done after {seconds:g} s", "".join(traceback.format_stack(where)[-6:]))
        time.sleep(SECONDS_TO_PRINT)
        os._exit(1)

    def _print(self, what: str, details: str) -> None:
        self.stderr.write(f"\n===== rank {self.rank} of {self.size}: {what}\n{details}\n")
        self.stderr.flush()

    def _abort(self, what: str, details: str) -> None:
        if self.size == 1:
            return  # nobody waits: pytest reports as always
        self._print(f"{what}; the job is aborted", details)
        time.sleep(SECONDS_TO_PRINT)
        self.world.Abort(1)


def _text(report) -> str:
    """The traceback and what the test printed."""
    return "\n".join([report.longreprtext, *(f"--- {title} ---\n{text}" for title, text in report.sections)])
