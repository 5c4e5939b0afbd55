"""A rank's supervisor: the process that the launcher starts. The rank is its child; when that cannot speak, it does.

    launcher ──▶ supervisor: waits, hands signals on ──▶ rank: MPI, the training
                      ▲                                    │
                      └──── "waiting …", "said" (pipe) ────┘

A rank that ends without a word (os._exit, a signal, out of memory) is named, with the cause, before the launcher sees
an end and kills the others. A rank that MPI does not let out of MPI_Init or MPI_Finalize, where no Python runs, is
ended after the time-out. Each of the three ends with the one before it, so that none is left behind. Linux only:
elsewhere a rank is on its own.
"""

import ctypes
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from functools import partial

from refimpl.transport.errors import waited_in_vain
from refimpl.transport.job import host
from refimpl.transport.job.host import JOB_VARIABLES

TIMEOUT_SECONDS = 300.0
"""The default time that a rank waits for others without any progress."""

LAUNCHER_SECONDS = 5.0
"""That a launcher may take to end after a rank's supervisor has spoken: Open MPI's has been seen to stay for ever where
several ranks are killed at once."""

ALARM, SILENCE = 1.06, 1.25
"""Of the time without a sign of life after which a rank is ended: when its alarm ends it, when it counts as dead."""

START_SECONDS = 60.0
"""That a rank may be silent longer, before it counts as dead: it may have to load and compile much at the start."""

PR_SET_PDEATHSIG = 1
HANDED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP,
             signal.SIGCONT)

_pipe: int | None = None  # of a rank, to its supervisor
_process = 0  # the rank's: a fork's child has no supervisor


def supervised(work) -> int:
    """Return work(), a status, done by this process as a rank under a supervisor. Local.

    In a process that no launcher of MPI's has started, or on a system that cannot: just work().
    """
    global _pipe, _process
    rank = next((os.environ[name] for name in JOB_VARIABLES if name in os.environ), None)
    if rank is None or "mpi4py.MPI" in sys.modules:
        return work()
    try:
        end_with(os.getppid())
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError):
        return work()
    (hear, _pipe), supervisor, host.launcher = os.pipe(), os.getpid(), os.getppid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON)  # until the supervisor can hand them on
    if child := os.fork():
        os.close(_pipe)
        try:
            os._exit(_Supervisor(rank, child, hear).run())
        finally:  # nothing of this process goes on as the rank's program
            os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(hear)
    end_with(supervisor)
    os.setpgid(0, 0)  # what a launcher sends to the group comes once, from the supervisor
    _process = os.getpid()
    try:
        return work()
    finally:
        told("said")


def told(message: str):
    """Tell this rank's supervisor, if it has one. Local.

    "said": this rank has had its own last word.  "left", "lost": so it has, and others may still be there, to be ended
    or to go on.
    """
    if _pipe is not None and os.getpid() == _process:
        with suppress(OSError):
            os.kill(os.getppid(), signal.SIGCONT)  # someone may have stopped it: the launcher would wait for ever
            os.write(_pipe, f"{message}\n".encode())


def waiting(seconds: float, what: str):
    """Have the supervisor end this rank unless ``arrived`` is called within ``seconds``. what: named then. Local."""
    told(f"waiting {seconds} {what}")


def arrived():
    """Tell the supervisor that what this rank was ``waiting`` for has come. Local."""
    told("arrived")


def alive(seconds: float):
    """Have the supervisor end this rank unless it hears from it again within ``seconds``. Local.

    Where it is stopped itself, with this rank, an alarm ends the rank as soon as it goes on: after some message to
    ranks that have given it up, MPI would end these.
    """
    told(f"alive {seconds:g}")
    signal.setitimer(signal.ITIMER_REAL, ALARM * seconds)


def outlived():
    """Tell the supervisor that the others go on without this rank, so that its death does not end the job. Local."""
    told("outlived")


def watch_heartbeats(seconds: float):
    """Let Open MPI report a rank that is no longer ``alive`` and that no process can end. Local; before MPI is loaded.

    A rank sends heartbeats whenever it calls MPI. (A thread of MPI's own could send them, but has crashed in MPI_Init.)
    One rank misses them, and must tell all others: Open MPI's daemons, to which it is left otherwise, have not done so.
    """
    silence = SILENCE * seconds + START_SECONDS
    for name, value in {"detector": "true", "detector_timeout": silence, "detector_period": silence / 8,
                        "propagator_with_rbcast": "true"}.items():
        os.environ.setdefault(f"OMPI_MCA_mpi_ft_{name}", str(value))


def silence_allowed() -> float:
    """Return the seconds without a heartbeat after which Open MPI takes a rank for dead; 0: there are none. Local."""
    return float(os.environ.get("OMPI_MCA_mpi_ft_detector_timeout", 0))


def end_with(parent: int):
    """Let the kernel kill this process when its parent ends for any reason. parent: its number as seen here. Local.

    Raises OSError where the kernel is not Linux.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL)):
        raise OSError(ctypes.get_errno(), "cannot be told of the parent's end: it needs Linux")
    if os.getppid() != parent:  # it ended before we asked
        os.kill(os.getpid(), signal.SIGKILL)


class _Supervisor:
    """What the supervisor knows of its rank."""

    def __init__(self, rank: str, child: int, hear: int):
        self.rank, self.child, self.hear = rank, child, hear
        self.said = self.spoke = False  # by the rank, by this process
        self.left = False  # whether the rank was among the last ones, and others may still be there
        self.outlived = False  # whether the other ranks go on without this one
        self.deadline, self.words = None, ""  # when the rank is ended, and what is said then

    def run(self) -> int:
        """Wait until the rank has ended; return the status to end with."""
        ended = os.pidfd_open(self.child)
        for number in HANDED_ON:
            signal.signal(number, partial(self._hand_on, ended))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDED_ON)
        heard = [self.hear]
        while True:
            left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
            ready, _, _ = select.select([ended, *heard], [], [], left)
            if self.hear in ready and not self._listen():
                heard = []
            if ended in ready:
                return self._last_word()
            if not ready:
                self._speak(self.words)
                os.kill(self.child, signal.SIGKILL)
                self.deadline = None

    @staticmethod
    def _hand_on(rank, number, _):
        with suppress(ProcessLookupError):  # the descriptor, not a number that another process may bear by now
            signal.pidfd_send_signal(rank, number)

    def _listen(self) -> bool:
        """Read what the rank tells; return whether there was anything: nothing comes once it has ended."""
        text = os.read(self.hear, 4096).decode()
        for line in text.splitlines():
            word, _, rest = line.partition(" ")
            if word == "said":
                self.said = True
            elif word == "left":
                self.said = self.left = True
            elif word == "lost":
                self.said = self.spoke = True  # its error ends no other rank
            elif word == "arrived":
                self.deadline = None
            elif word == "outlived":
                self.outlived = True
            else:
                seconds, _, what = rest.partition(" ")
                self.deadline = time.monotonic() + float(seconds)
                self.words = (waited_in_vain(self.rank, seconds, "the other ranks", what) if word == "waiting" else
                              f"rank {self.rank} gave no sign of life for {seconds} s, and was ended: it was stopped, "
                              "or was stuck or computing longer than --timeout")
        return bool(text)

    def _last_word(self) -> int:
        """Name a rank that has ended without a word; return its status, or end by the signal that has ended it."""
        while select.select([self.hear], [], [], 0)[0] and self._listen():
            pass
        for number in HANDED_ON:
            signal.signal(number, signal.SIG_IGN)  # it ends already
        _, status = os.waitpid(self.child, 0)
        code = os.waitstatus_to_exitcode(status)
        if not self.said or code < 0 and not self.spoke:
            cause = (f"it ended with status {code}, in the midst of the program (os._exit?)" if code >= 0 else
                     f"killed by {signal.Signals(-code).name}"
                     + " (by someone, or out of memory?)" * (code == -signal.SIGKILL)
                     + " (it came back after the others had given it up)" * (code == -signal.SIGALRM))
            self._speak(f"rank {self.rank}: {cause}")
            code = code or 1
        ends_all = code != 0 and not self.spoke if self.outlived else self.spoke  # an error of its own, or any end
        if ends_all or self.left:
            _end_later(os.getppid())
        if code < 0:  # by the same signal: some launchers look at nothing else
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with suppress(OSError):  # SIGKILL has no other way
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        return abs(code)

    def _speak(self, words):
        self.said = self.spoke = True
        with suppress(OSError):
            os.write(2, f"refimpl: {'' if self.outlived else 'error: '}{words}\n".encode())


def _end_later(launcher: int):
    """Leave a process behind that ends the launcher if it has not ended after LAUNCHER_SECONDS. Local."""
    with suppress(OSError):
        watched = os.pidfd_open(launcher)
        if os.fork():
            return
        try:
            os.setsid()
            os.closerange(0, watched)  # the launcher waits until no process holds its pipes any more
            os.closerange(watched + 1, 256)
            for number, seconds in ((signal.SIGTERM, LAUNCHER_SECONDS), (signal.SIGKILL, 1.0)):
                if not select.select([watched], [], [], seconds)[0]:
                    signal.pidfd_send_signal(watched, number)
        finally:
            os._exit(0)
