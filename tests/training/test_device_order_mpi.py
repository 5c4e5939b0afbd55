"""What a training asks of NCCL: all ranks' groups meet in their order, so nobody waits in a circle on a stream."""

import pytest
from toys import make_trainer

from refimpl.collectives import check_programs
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi(min_size=2), pytest.mark.ranks(3)]
SETTINGS = {
    "allreduce": dict(architecture="allreduce", partitions=3),
    "ps": dict(architecture="ps", partitions=5),
    "overlapped": dict(architecture="hybrid", overlap=True),
    "hot rows": dict(architecture="hybrid", hot_rows=5),
    "ring": dict(architecture="hybrid", allreduce="ring"),
}


@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.thorough("overlapped-2", "ps-1", "ring-2")
def test_the_groups_of_a_step_meet(comm, standin, settings, each):
    from nccl_order import programs_of  # beside the stand-in

    communicator = Communicator(comm, machines=in_blocks(comm.size, each))
    trainer = make_trainer("toy", "adam", communicator, device="cuda", **SETTINGS[settings])
    assert trainer.comm.device_transport.name == "nccl"
    standin.calls.clear()
    trainer.train_step()
    programs = programs_of(comm, standin.groups())
    assert all(programs)
    check_programs(programs, f"a step by {settings}")
