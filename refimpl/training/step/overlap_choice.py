"""Do exchanges overlap with computation? As the user says, or if it is likely to pay."""

import json
from dataclasses import dataclass

from refimpl.transport import Communicator
from refimpl.transport.job.host import core_numbers, ranks_on_host
from refimpl.transport.machines import Machines
from refimpl.words import counted

NEEDS_THREADS = ("--overlap needs an MPI that any thread may call (MPI_THREAD_MULTIPLE), this one gives less: leave "
                 "mpi4py.rc.thread_level at 'multiple', install an MPI built for it, or say --no-overlap")

MOST_A_CORE = 2
"""The largest number of ranks on a core with which exchanges still find time during the computation."""


@dataclass(frozen=True)
class OverlapChoice:
    """What was chosen. reason: a sentence for users; "" if there was no choice.

    way: "no": exchanges follow the computation.  "early": dense gradients and rows on the server travel during the
    computation, without a thread (``early``).  "thread": a thread does all exchanges meanwhile (``overlapped``).
    """

    way: str
    reason: str = ""


def choose_overlap(wanted: bool | None, threads: bool, machines: Machines, hosts, on_gpu=False) -> OverlapChoice:
    """Return the choice. wanted: True: a thread; False: no overlap; None: this function chooses. Local.

    threads: whether any thread may call MPI. (It is not enough that no two threads call it at once, because another
    thread may free objects of MPI.)  hosts: (ranks, cores) of each machine's host.  on_gpu: the computation leaves
    cores free.

    With one rank on each machine, "early" was as fast as the thread or faster (docs/measured.md). With more ranks on a
    machine, sums use shared memory, and nothing can begin early. There a thread pays if the ranks have free time. If
    many ranks share a core, the thread and its smaller messages slow down other ranks.
    Measured on 2 cores at 200 Mbit/s: steps of 4 ranks were 1.0 to 1.2 x as fast with a thread, steps of 8 ranks 0.7 to
    0.95 x. Raises ValueError if a thread is wanted and MPI does not allow it.
    """
    if wanted and not threads:
        raise ValueError(NEEDS_THREADS)
    if wanted is not None:
        return OverlapChoice("thread" if wanted else "no")
    if len(machines) == 1:
        return OverlapChoice("no")
    if not on_gpu and max(map(len, machines)) == 1:
        return OverlapChoice("early", "dense gradients leave during the backward pass, as there are several machines "
                                      "(--no-overlap: after it)")
    if not threads:
        return OverlapChoice("no", "exchanges do not overlap with computation: this MPI may not be called from any "
                                   "thread (MPI_THREAD_MULTIPLE)")
    ranks, available = max(hosts, key=lambda host: host[0] / host[1])
    if ranks > MOST_A_CORE * available and not on_gpu:
        return OverlapChoice("no", f"exchanges do not overlap with computation: {ranks} ranks of a host share "
                                   f"{counted(available, 'core')} (--overlap: they do)")
    return OverlapChoice("thread", "exchanges overlap with computation, as there are several machines "
                               + ("and GPUs compute" if on_gpu else f"and at most {MOST_A_CORE} ranks a core")
                               + " (--no-overlap: they do not)")


def hosts_of(told, machines: Machines) -> list[tuple[int, int]]:
    """Return (ranks, cores) of each machine's host. told[r]: (ranks on rank r's host, cores that r may use). Local.

    The cores that a machine's ranks may use together count: ranks that are each bound to a core share none.
    """
    return [(max(told[r][0] for r in ranks), len({core for r in ranks for core in told[r][1]})) for ranks in machines]


def overlap_of(wanted: bool | None, comm: Communicator, on_gpu: bool) -> OverlapChoice:
    """Return the choice; it is the same on every rank if all want the same. Collective."""
    mine = json.dumps([ranks_on_host(len(comm.machine)), core_numbers()])
    hosts = hosts_of([json.loads(text) for text in comm.share_text(mine)], comm.machines)
    return comm.together(lambda: choose_overlap(wanted, comm.threads, comm.machines, hosts, on_gpu), (ValueError,))
