"""Nothing communicates in a constructor (docs/design.md, One step): held by whoever is asked to, whoever asks."""

import sys
from pathlib import Path

import pytest
from toys import WORKS, make_options

import refimpl
from refimpl.training.session import train
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks
from refimpl.transport.memory.shared_memory import SharedWindow
from refimpl.transport.messages import MpiPrepared
from refimpl.transport.rounds import CompiledRounds

pytestmark = [pytest.mark.mpi(min_size=2), pytest.mark.ranks(3)]
OURS = *(Path(refimpl.__file__).parents[1] / name for name in ("refimpl", "models", "kernels")), Path(__file__)
LOCAL = ("Get_rank", "Get_size", "Get_group", "Send_init", "Recv_init")
"""What a communicator of mpi4py does without any other rank."""


class Watched:
    """mpi4py's communicator; it notes what is asked of it, and what in a constructor of ours."""

    def __init__(self, comm):
        self.comm, self.asked, self.found = comm, set(), set()

    def __getattr__(self, name):
        method = getattr(self.comm, name)
        return method if name in LOCAL else self.watch(name, method)

    def watch(self, name, method):
        def asked(*arguments, **options):
            self.asked.add(name)
            frame = sys._getframe()
            while frame := frame.f_back:
                code, path = frame.f_code, Path(frame.f_code.co_filename)
                if code.co_name in ("__init__", "__post_init__") and any(map(path.is_relative_to, OURS)):
                    self.found.add(f"{code.co_qualname}: {name}")
            return method(*arguments, **options)

        return asked


@pytest.fixture
def watched(comm, monkeypatch):
    watched = Watched(comm)
    for cls, name in ((MpiPrepared, "start"), (CompiledRounds, "__call__"), (SharedWindow, "do")):
        monkeypatch.setattr(cls, name, watched.watch(f"{cls.__name__}.{name}", getattr(cls, name)))
    return watched


class Impatient:
    def __init__(self, mpi):
        self.comm = Communicator.of(mpi)


def test_a_constructor_that_communicates_is_found(watched):
    Impatient(watched)
    assert {"Impatient.__init__: Ibarrier", "Impatient.__init__: Split_type"} <= watched.found


@pytest.mark.parametrize("each, asked, options", [
    (None, "SharedWindow.do", dict(search_partitions=True, search_warmup=0, search_sample=1)),
    (None, "CompiledRounds.__call__", dict(allreduce="ring", hot_rows=5)),
    (1, "Isend", dict(overlap=True, architecture="auto")),
    (2, "Isend", dict(overlap=False, sparse_as_dense=True, architecture="allreduce", allreduce="hierarchical")),
    (None, "CompiledRounds.__call__", dict(architecture="allreduce", consistency="local:2", clip_norm=None,
                                           shared_memory=False))])
def test_a_training_communicates_in_no_constructor(comm, watched, mpi_tmp_path, each, asked, options):
    communicator = Communicator.of(watched) if each is None else Communicator(watched, in_blocks(comm.size, each))
    model, data, _ = WORKS["toy"]
    options = make_options("toy", "adam", device="cpu", **options)
    result = train(model(), data(8), data(8), options=options, comm=communicator, output=mpi_tmp_path / "run",
                   trace=True)
    assert result.steps == 3 and {asked, "Iallgather", "Iallreduce"} <= watched.asked
    assert not watched.found
