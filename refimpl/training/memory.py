"""Is there enough memory for a training? This is checked before arrays are made; later Linux would kill ranks."""

import refimpl.strategies  # noqa: F401 - a plan knows those that were imported
from kernels.update import OPTIMIZERS
from refimpl.plan.mesh import Mesh
from refimpl.plan.plan import Plan
from refimpl.transport.job.host import memory, ranks_on_host
from refimpl.words import counted

GIB = 1 << 30


def members_of(options, ranks: int) -> int:
    """Return the largest number of ranks that share a cut layer. Local. Raises ValueError for an invalid mesh."""
    if options.plan is not None:
        return max(1, Plan.from_json(options.plan).on_mesh.model)
    return {None: 1, "auto": ranks}.get(options.mesh) or Mesh.of(options.mesh, ranks).model


def require_memory(variables, optimizer: str, ranks: int, members: int):
    """Raise ValueError if this host's part of ``ranks`` ranks cannot keep what every architecture needs. Local.

        bytes of a rank = 2 Σ dense + (1 + state) Σ sparse / N

    A dense variable and its gradient are on every rank (if it has column blocks, a part for each of ``members``). Rows
    and the optimizer's state are on the server at least once.
    """
    dense, sparse = ([v for v in variables if v.sparse is kind] for kind in (False, True))
    of_rank = sum(v.nbytes // (members if v.blocks > 1 else 1) for v in dense)
    rows = (1 + len(OPTIMIZERS[optimizer].state)) * sum(v.nbytes for v in sparse)
    here = ranks_on_host()
    needed = here * (2 * of_rank + rows // ranks)
    if needed > memory():
        largest = max(variables, key=lambda v: v.nbytes)
        raise ValueError(f"the variables need at least {_gib(needed)} of memory for the {counted(here, 'rank')} "
                         f"of this host, which has {_gib(memory())}; the largest is {largest.name!r}, "
                         f"{_gib(largest.nbytes)}: choose smaller sizes (--preset, --set, --data), or more hosts")


def _gib(number) -> str:
    return f"{number / GIB:.4g} GiB"
