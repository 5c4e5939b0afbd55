"""A rank's supervisor: the process that the launcher starts. The rank is its child.

    launcher ──▶ supervisor: waits, hands signals on ──▶ rank: MPI, the training
                      ▲                                    │
                      └──── "waiting …", "said" (pipe) ────┘

If a rank ends without a message (os._exit, a signal, out of memory), its supervisor names it and the cause, before the
launcher notices and kills the others. If MPI_Init or MPI_Finalize does not return within the time-out, the supervisor
kills the rank. If the launcher ends, so do supervisor and rank. Only on Linux: on other systems there is no supervisor.
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
"""The default seconds that a rank waits for others without any progress."""

LAUNCHER_SECONDS = 5.0
"""The seconds of a launcher to end after a supervisor's message. Open MPI's may hang if several ranks die at once."""

ALARM, SILENCE = 1.06, 1.25
"""Multiples of the time without a sign of life after which a supervisor ends its rank: after the first the rank's alarm
ends it, after the second it counts as dead."""

START_SECONDS = 60.0
"""The seconds that are added to the second: at the start a rank may have to load and compile much."""

PR_SET_PDEATHSIG = 1
HANDED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP,
             signal.SIGCONT)

_pipe: int | None = None  # from a rank to its supervisor
_process = 0  # the rank's number: a child of a fork has no supervisor


def supervised(work) -> int:
    """Return the status of work(), done by a rank under a supervisor. Local.

    In a process that MPI's launcher has not started, or on a system other than Linux, it only calls work().
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
        finally:  # the supervisor must not return into the rank's program
            os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(hear)
    end_with(supervisor)
    os.setpgid(0, 0)  # a launcher's signal to the group reaches the rank once, through the supervisor
    _process = os.getpid()
    try:
        return work()
    finally:
        told("said")


def told(message: str):
    """Send a message to this rank's supervisor, if it has one. Local.

    "said": this rank has reported its error.  "left": so it has, and others may still be there, to be ended.
    "lost": so it has, and others may continue.
    """
    if _pipe is not None and os.getpid() == _process:
        with suppress(OSError):
            os.kill(os.getppid(), signal.SIGCONT)  # if it was stopped, the launcher would wait for ever
            os.write(_pipe, f"{message}\n".encode())


def waiting(seconds: float, what: str):
    """Let the supervisor end this rank, unless it calls ``arrived`` within ``seconds``. what: for the error. Local."""
    told(f"waiting {seconds} {what}")


def arrived():
    """Tell the supervisor that this rank is no longer ``waiting``. Local."""
    told("arrived")


def alive(seconds: float):
    """Let the supervisor end this rank, unless it gets another message within ``seconds``. Local.

    If supervisor and rank are both stopped, an alarm ends the rank as soon as it continues. The others may treat it as
    dead by then, and MPI would end them after a message from it.
    """
    told(f"alive {seconds:g}")
    signal.setitimer(signal.ITIMER_REAL, ALARM * seconds)


def outlived():
    """Tell the supervisor that the others continue without this rank, so that its death does not end the job. Local."""
    told("outlived")


def watch_heartbeats(seconds: float):
    """Let Open MPI report a silent rank that no supervisor can end. To be called before MPI is loaded. Local.

    A rank sends heartbeats whenever it calls MPI. (A thread of Open MPI could send them, but it has crashed in
    MPI_Init.) The rank that misses them tells all others, because Open MPI's daemons have failed to do so.
    """
    silence = SILENCE * seconds + START_SECONDS
    for name, value in {"detector": "true", "detector_timeout": silence, "detector_period": silence / 8,
                        "propagator_with_rbcast": "true"}.items():
        os.environ.setdefault(f"OMPI_MCA_mpi_ft_{name}", str(value))


def silence_allowed() -> float:
    """Return the seconds without a heartbeat after which Open MPI counts a rank as dead; 0: no heartbeats. Local."""
    return float(os.environ.get("OMPI_MCA_mpi_ft_detector_timeout", 0))


def end_with(parent: int):
    """Let the kernel kill this process when its parent ends for any reason. parent: the parent's number. Local.

    Raises OSError if the system is not Linux.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL)):
        raise OSError(ctypes.get_errno(), "cannot be told of the parent's end: it needs Linux")
    if os.getppid() != parent:  # it ended before we asked
        os.kill(os.getpid(), signal.SIGKILL)


class _Supervisor:
    """The supervisor of one rank."""

    def __init__(self, rank: str, child: int, hear: int):
        self.rank, self.child, self.hear = rank, child, hear
        self.said = self.spoke = False  # whether the error was reported: at all, by this process
        self.left = False  # whether the rank was among the last ones, and others may still be there
        self.outlived = False  # whether the other ranks continue without this one
        self.deadline, self.words = None, ""  # when the rank is ended, and the message then

    def run(self) -> int:
        """Wait until the rank has ended; return the exit status for this process."""
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
        with suppress(ProcessLookupError):  # a descriptor, because another process may have the number by now
            signal.pidfd_send_signal(rank, number)

    def _listen(self) -> bool:
        """Read the rank's messages; return False if it has closed the pipe, by its end."""
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
        """Name a rank that has ended without a message; return its status, or end by the signal that ended it."""
        while select.select([self.hear], [], [], 0)[0] and self._listen():
            pass
        for number in HANDED_ON:
            signal.signal(number, signal.SIG_IGN)  # this process is ending already
        _, status = os.waitpid(self.child, 0)
        code = os.waitstatus_to_exitcode(status)
        if not self.said or code < 0 and not self.spoke:
            cause = (f"it ended with status {code}, in the midst of the program (os._exit?)" if code >= 0 else
                     f"killed by {signal.Signals(-code).name}"
                     + " (by someone, or out of memory?)" * (code == -signal.SIGKILL)
                     + " (it came back after the others had given it up)" * (code == -signal.SIGALRM))
            self._speak(f"rank {self.rank}: {cause}")
            code = code or 1
        ends_all = code != 0 and not self.spoke if self.outlived else self.spoke  # outlived: only its own error
        if ends_all or self.left:
            _end_later(os.getppid())
        if code < 0:  # end by the same signal: some launchers look only at this
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with suppress(OSError):  # SIGKILL has no handler to reset
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        return abs(code)

    def _speak(self, words):
        self.said = self.spoke = True
        with suppress(OSError):
            os.write(2, f"refimpl: {'' if self.outlived else 'error: '}{words}\n".encode())


def _end_later(launcher: int):
    """Start a process that ends the launcher if this has not ended after LAUNCHER_SECONDS. Local."""
    with suppress(OSError):
        watched = os.pidfd_open(launcher)
        if os.fork():
            return
        try:
            os.setsid()
            os.closerange(0, watched)  # the launcher waits until all processes have closed its pipes
            os.closerange(watched + 1, 256)
            for number, seconds in ((signal.SIGTERM, LAUNCHER_SECONDS), (signal.SIGKILL, 1.0)):
                if not select.select([watched], [], [], seconds)[0]:
                    signal.pidfd_send_signal(watched, number)
        finally:
            os._exit(0)
