"""Will ranks that each ask NCCL for groups, one after the other, meet? As programs, for ``check_programs``."""

from refimpl.collectives.schedule import Round, Transfer


def programs_of(comm, groups):
    """Return each rank's groups as a program: a round for each group, whose chunks are bytes. Collective.

    groups: this rank's, see ``cupy.standin.groups``.
    """
    ends = {"send": lambda rank, peer: (rank, peer), "recv": lambda rank, peer: (peer, rank)}
    return [tuple(Round(tuple(Transfer(*ends[what](rank, peer), 0, nbytes) for what, nbytes, peer in group))
                  for group in groups) for rank, groups in enumerate(comm.allgather(groups))]
