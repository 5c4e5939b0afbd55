"""Trainings on a device: the same bits on any number of ranks, and nothing but numbers leaves the device.

On CuPy's stand-in, or on a GPU where there is one. (`make test-gpu` runs all tests of trainings there.)
"""

import functools

import pytest
import toys
from mpi4py import MPI
from test_bytes_mpi import check
from toys import WORKS, answer, make_options, make_trainer

from refimpl.collectives import check_programs
from refimpl.enclosure import enclosed_step, read_state, within
from refimpl.training.run.checkpoint import steps_saved
from refimpl.training.session import train
from refimpl.transport import CollectiveError, Communicator
from refimpl.transport.machines import in_blocks

SETTINGS = toys.SETTINGS | {
    "ps": dict(architecture="ps", partitions=5),
    "overlapped": dict(architecture="hybrid", overlap=True),
    "hot rows": dict(architecture="hybrid", hot_rows=5),
    "staged": dict(architecture="hybrid", transport="staged"),
}
CASES = [("toy", "adam"), ("lm", "adagrad"), ("cnn", "momentum"), ("nmt", "sgd")]
CASES_OF = {name: CASES[:1] for name in SETTINGS} | {
    "allreduce": CASES, "hybrid": CASES[1:2], "ps": CASES[:2], "overlapped": CASES[:2]}

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3), pytest.mark.usefixtures("cupy")]


@pytest.fixture(scope="module")
def one_rank(cupy, world):
    """Return function(work, optimizer) -> the answer of one rank on the device. Collective: one rank computes it."""

    @functools.cache
    def found(*case):
        root = CASES.index(case) % world.size
        return world.bcast(answer(*case, MPI.COMM_SELF, device="cuda") if world.rank == root else None, root)

    return found


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.thorough("hybrid", "staged")
def test_every_setting_gives_the_answer_of_one_rank(comm, one_rank, settings):
    for case in CASES_OF[settings]:
        assert answer(*case, comm, device="cuda", **SETTINGS[settings]) == one_rank(*case), case


def test_machines_that_aggregate_give_the_answer_of_one_rank(comm, one_rank):
    for case in CASES[:1]:
        communicator = Communicator(comm, in_blocks(comm.size, 2))
        assert answer(*case, communicator, device="cuda") == one_rank(*case), case


@pytest.mark.parametrize("transport", ["auto", "staged"])
@pytest.mark.thorough("staged")
def test_every_byte_is_accounted_for(comm, transport):
    for work, architecture in (("toy", "ps"), ("lm", "hybrid")):
        check(comm, work, 7, dict(device="cuda", architecture=architecture, transport=transport))
    check(comm, "toy", 8, dict(device="cuda", architecture="ps", transport=transport), in_blocks(comm.size, 2))


def test_the_bits_are_the_devices_own(one_rank):
    """The comparison above would see another rounding: the CPU's activations differ from the device's."""
    assert answer("lm", "adagrad", MPI.COMM_SELF, device="cpu") != one_rank("lm", "adagrad")


def crossings(cupy, comm, work, optimizer, **settings):
    """Return what crosses the bus on this rank in a training step, its images' bytes, and the most of its numbers."""
    trainer = make_trainer(work, optimizer, comm, device="cuda", **settings)
    trainer.train_step()
    batches = [trainer.data.microbatch(1, v) for v in trainer.microbatches]
    with cupy.standin.counting() as count:
        trainer.train_step()
    images = sum(batch.inputs.nbytes for batch in batches if batch is not None and batch.inputs.dtype == "uint8")
    variables = len(trainer.model.variables)  # a loss and flags for each microbatch; for each sum a flag and 69 digits
    return count, images, len(trainer.microbatches) * (1 + variables) + variables * (1 + 69)


@pytest.mark.parametrize("work, optimizer, settings", [
    ("toy", "adam", "allreduce"), ("toy", "adam", "ps"), ("toy", "adam", "hot rows"), ("lm", "adagrad", "hybrid"),
    ("lm", "adagrad", "overlapped"), ("cnn", "momentum", "hybrid"), ("cnn", "momentum", "overlapped"),
    ("nmt", "sgd", "hybrid")])
@pytest.mark.thorough("lm-adagrad-overlapped", "toy-adam-ps")
def test_in_a_step_only_row_numbers_images_and_scalars_cross_the_bus(comm, cupy, work, optimizer, settings):
    if not hasattr(cupy, "standin"):
        pytest.skip("only the stand-in counts transfers")
    count, images, numbers = crossings(cupy, comm, work, optimizer, **SETTINGS[settings])
    sent_whole = [one for one in count.of("number") if "flatnonzero" in one.what]  # which rows anybody touched
    assert len(sent_whole) <= (2 if settings == "hot rows" else 0)
    assert count.of("number") == sent_whole
    for one in count.of("to_host"):
        assert "int64" in one.what and one.nbytes <= numbers * 8, str(one)
    assert len(count.of("to_host")) == 1 + len(sent_whole), "the host waits once"
    sent = [one for one in count.of("to_device") if "uint8" in one.what]
    assert sum(one.nbytes for one in sent) == images, "each image is sent once, as bytes"
    for one in count.of("to_device"):  # a number for each target
        assert one in sent or "int64" in one.what or "bool" in one.what or one.nbytes <= 512, str(one)


def test_data_that_fail_are_met_in_their_step(comm, cupy):
    """A device's next batches are read while it computes: too early to speak of what is wrong with them."""
    trainer = make_trainer("toy", "sgd", comm, device="cuda")
    read = trainer.data.microbatch

    def broken(step, index):
        if step == 1:
            raise OSError("the disk is gone")
        return read(step, index)

    trainer.data.microbatch = broken
    trainer.train_step()
    with pytest.raises(CollectiveError, match="the disk is gone"):
        trainer.train_step()
    trainer.data.microbatch = read
    trainer.train_step()


def test_staged_values_do_cross_and_are_seen(comm, cupy):
    if not hasattr(cupy, "standin") or comm.size == 1:
        pytest.skip("only the stand-in counts transfers, and one rank sends none")
    count, _, _ = crossings(cupy, comm, "toy", "adam", **SETTINGS["staged"])
    assert any("float32" in one.what for one in count.of("to_host"))


@pytest.mark.parametrize("work, optimizer", CASES[:2])
@pytest.mark.thorough("toy-adam")
def test_a_checkpoint_goes_on_elsewhere(comm, one_rank, cupy, tmp_path, work, optimizer):
    """From a device to a device, to the bit, on another number of ranks; and from the device to the CPU."""
    path, (model, data, _) = comm.bcast(tmp_path), WORKS[work]
    options, expected = make_options(work, optimizer, steps=2, device="cuda"), one_rank(work, optimizer)
    train(model(), data(), options=options, comm=comm, output=path / "run")
    comm.Barrier()
    if comm.rank == 0:
        assert steps_saved(path / "run") == [2]
        options = make_options(work, optimizer, steps=3, device="cuda", architecture="ps")
        resumed = train(model(), data(), data(), options=options, comm=MPI.COMM_SELF, resume=path / "run")
        assert (resumed.parameters_sha256, resumed.state_sha256) == expected[2:]
        on_cpu = train(model(), data(), data(), options=make_options(work, optimizer, steps=3, device="cpu"),
                       comm=MPI.COMM_SELF, resume=path / "run", output=path / "cpu")
        state, loss = enclosed_step(model(), data(), options, read_state(path / "run"))
        assert all(abs(found.loss - loss.middle) <= loss.radius for found in (resumed, on_cpu))
        within(state, {key: point.middle for key, point in read_state(path / "cpu").arrays.items()})
    comm.Barrier()


@pytest.mark.mpi(min_size=2)
@pytest.mark.ranks(3)
@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("settings", ["allreduce", "ps", "overlapped", "hot rows", "ring"])
@pytest.mark.thorough("overlapped-2", "ps-1", "ring-2")
def test_the_groups_of_a_step_meet(comm, standin, settings, each):
    """All ranks' groups of NCCL meet in their order, so nobody waits in a circle on a stream."""
    from nccl_order import programs_of  # beside the stand-in

    communicator = Communicator(comm, machines=in_blocks(comm.size, each))
    trainer = make_trainer("toy", "adam", communicator, device="cuda", **SETTINGS.get(settings, {"allreduce": "ring"}))
    assert trainer.comm.device_transport.name == "nccl"
    standin.calls.clear()
    trainer.train_step()
    programs = programs_of(comm, standin.groups())
    assert all(programs)
    check_programs(programs, f"a step by {settings}")
