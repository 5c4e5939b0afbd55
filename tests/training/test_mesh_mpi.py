"""Layers cut over groups of ranks: on every mesh the bits of one rank, every byte as the formula, or a refusal."""

import json

import numpy as np
import pytest
from mpi4py import MPI
from test_bytes_mpi import Metered, counted, differences
from toys import DEVICE, RATES, answer_of, device_for, refusal, whole_state

from kernels.update import OPTIMIZERS
from models.data import Examples
from models.perceptron import Perceptron
from refimpl.collectives.simulation.network import Network
from refimpl.plan import predict_step
from refimpl.plan.activations import examples_in
from refimpl.strategies.allreduce import AllreduceExchange
from refimpl.training.options import Options
from refimpl.training.run.checkpoint import load_checkpoint, save_checkpoint
from refimpl.training.run.files import write_json
from refimpl.training.run.whole import hashes
from refimpl.training.session import train
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(4)]

MICROBATCHES = 16


def perceptron(**changes):
    return Perceptron(**{"inputs": 10, "widths": (16, 8), "blocks": 4, "keep": 0.75, **changes})


def data(microbatches=MICROBATCHES, size=3):
    """83 examples, 48 a step: the second step of an epoch has microbatches of 3, 2 and none."""
    rng = np.random.default_rng(4)
    inputs, targets = (rng.standard_normal((83, n)).astype(np.float32) for n in (10, 3))
    return Examples(inputs, targets, microbatches, size, 1)


def options(optimizer="adam", **changes):
    return Options(**{"device": device_for(changes), "optimizer": optimizer, "learning_rate": RATES[optimizer], "steps": 3,
                      "clip_norm": 0.3, "weight_decay": 0.01, "architecture": "allreduce", **changes})


def meshes(size):
    return [f"{size // k}x{k}" for k in (1, 2, 4) if size % k == 0]


def cutting(size):
    """Those that cut layers: on the first one nothing is, as without a mesh."""
    return meshes(size)[1:]


def answer(comm, optimizer="adam", steps=3, model=perceptron, **changes):
    return answer_of(Trainer.open(model(), data(), options(optimizer, **changes), comm), steps)


def test_encoded_gradients_have_one_answer_on_every_mesh(comm):
    alone = answer(MPI.COMM_SELF, codec={"dense": "bf16"})
    assert alone != answer(MPI.COMM_SELF)
    for mesh in cutting(comm.size):
        assert answer(comm, codec={"dense": "bf16"}, mesh=mesh) == alone, mesh
        message = refusal(comm, lambda mesh=mesh: answer(comm, codec={"dense": "integers:16"}, mesh=mesh))
        assert "each part of a layer that is cut would get its own scale" in message


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.thorough("momentum")
def test_every_mesh_gives_the_answer_of_one_rank(comm, optimizer):
    alone = answer(MPI.COMM_SELF, optimizer)
    for mesh in meshes(comm.size):
        for changes in (dict(), dict(architecture="hybrid", shard_optimizer=True)):
            assert answer(comm, optimizer, mesh=mesh, **changes) == alone, mesh


@pytest.mark.parametrize("widths, outputs, blocks", [((8,), 3, 8), ((4, 12, 8), 1, 4)])
def test_any_number_of_layers_may_be_cut(comm, widths, outputs, blocks):
    def model():
        return perceptron(widths=widths, blocks=blocks)

    alone = answer(MPI.COMM_SELF, model=model)
    for mesh in cutting(comm.size):
        assert answer(comm, mesh=mesh, model=model) == alone, mesh


@pytest.mark.parametrize("each, rounds", [(1, 1), (3, 1), (2, 2), (6, 2)])
def test_fewer_microbatches_take_fewer_rounds(comm, each, rounds):
    found = []
    for on, mesh in ((comm, f"1x{comm.size}"), (MPI.COMM_SELF, None)):
        trainer = Trainer.open(perceptron(), data(each * comm.size, 2), options(mesh=mesh), on)
        trainer.train_step()
        found.append(hashes(trainer.parameters))
        assert mesh is None or len(trainer.consistency.mesh.rounds) == rounds
    assert found[0] == found[1]


@pytest.mark.parametrize("bucket", [1, None])
@pytest.mark.thorough("1")
def test_gradients_that_leave_early_are_the_same(comm, monkeypatch, bucket):
    """On machines of one rank, each variable by itself or all together, what is summed goes on between the units."""
    if bucket:
        monkeypatch.setattr("refimpl.plan.buckets.BUCKET", bucket)
    alone, on = answer(MPI.COMM_SELF), in_blocks(comm.size, 1)
    for mesh in cutting(comm.size):
        begun, begin = [], AllreduceExchange.begin
        monkeypatch.setattr(AllreduceExchange, "begin", lambda self: (begun.append(self), begin(self)))
        assert answer(Communicator(comm, on), mesh=mesh, overlap=True) == alone, mesh
        monkeypatch.setattr(AllreduceExchange, "begin", begin)
        assert len(begun) == 3 * (4 if bucket else 3)  # of two layers, and of weight and bias


@pytest.mark.parametrize("machines", [1, 2])
@pytest.mark.thorough("2")
def test_the_ledger_is_the_formula(comm, machines):
    examples = data()
    for mesh in meshes(comm.size):
        meter = Metered(comm)
        on = in_blocks(comm.size, machines)
        communicator = Communicator(meter, on)
        meter.machine = communicator.machine
        trainer = Trainer.open(perceptron(), examples, options(mesh=mesh, shared_memory=False), communicator)
        for step in range(3):
            meter.clear()
            trainer.train_step()
            counts = [examples_in(examples.microbatch(step, v)) for v in range(MICROBATCHES)]
            assert 0 in counts or step != 1
            for prefix, crossing in (("", False), ("crossed_", True)):
                found = counted(trainer.comm.ledger, prefix)
                assert differences(found, predict_step(trainer.plan, trainer.model.variables, {}, {}, comm.rank,
                                                       crossing, counts)) == {}, mesh
            for way in ("sent", "received", "crossed_sent", "crossed_received") if DEVICE == "cpu" else ():
                assert getattr(meter, way) == trainer.comm.ledger.total(way), way


def test_a_formula_with_other_examples_is_another(comm):
    mesh = meshes(comm.size)[-1]
    trainer = Trainer.open(perceptron(), data(), options(mesh=mesh), comm)
    found = [predict_step(trainer.plan, trainer.model.variables, {}, {}, 0, examples=[n] * MICROBATCHES) for n in (3, 4)]
    assert (found[0] == found[1]) == (mesh.endswith("x1"))


def test_a_rank_keeps_its_part_of_what_is_cut(comm):
    for mesh in meshes(comm.size):
        members = int(mesh.partition("x")[2])
        trainer = Trainer.open(perceptron(), data(), options(mesh=mesh), comm)
        trainer.train_step()
        for v in trainer.model.variables:
            shard = trainer.parameters.exchange_of[v.name].shards[v.name]
            for array in (shard.values, *shard.state.values()):
                assert array.size * (1 if v.name.startswith("out") else members) == v.size


def test_a_checkpoint_goes_on_on_any_mesh(comm, tmp_path_factory):
    directory = comm.bcast(tmp_path_factory.mktemp("mesh") if comm.rank == 0 else None)
    whole = answer(MPI.COMM_SELF, steps=5)
    order = [None, *meshes(comm.size), None, *reversed(meshes(comm.size))][:5]
    for done, mesh in enumerate(order):
        trainer = Trainer.open(perceptron(), data(), options(mesh=mesh, steps=5), comm)
        if done:
            load_checkpoint(trainer, directory)
        found = answer_of(trainer)
        save_checkpoint(trainer, directory, {})
        comm.Barrier()
    assert (answer_of(trainer, 4 - done) if done < 4 else found) == whole
    state = whole_state(trainer)
    assert state["fc1.weight", None].shape == (16, 10)


def test_a_checkpoint_of_other_blocks_is_refused(comm, tmp_path_factory):
    directory = comm.bcast(tmp_path_factory.mktemp("blocks") if comm.rank == 0 else None)
    save_checkpoint(Trainer.open(perceptron(), data(), options(), comm), directory, {})
    comm.Barrier()
    other = Trainer.open(perceptron(blocks=8), data(), options(), comm)
    said = refusal(comm, lambda: load_checkpoint(other, directory))
    assert "the number of column blocks was {'fc1.weight': 4, " in said and "is now {'fc1.weight': 8, " in said


def test_evaluation_and_a_whole_session(comm):
    results = [train(perceptron(), data(), data(), options=options(mesh=mesh), comm=comm)
               for mesh in (None, *meshes(comm.size))]
    for name in ("parameters_sha256", "state_sha256", "evaluation", "loss"):
        assert all(getattr(result, name) == getattr(results[0], name) for result in results)


def test_a_plan_is_followed_and_may_cut_fewer_layers(comm):
    plan = Trainer.open(perceptron(), data(), options(mesh=f"1x{comm.size}"), comm).plan.to_json()
    fewer = json.loads(json.dumps(plan))
    assert Trainer.open(perceptron(), data(), options(plan=fewer), comm).plan.to_json() == plan
    for placement in fewer["placements"]:
        if placement["variable"].startswith("fc2."):
            placement["strategy"] = "allreduce"
            placement.pop("members", None)
    assert answer(comm, plan=fewer) == answer(MPI.COMM_SELF)


def test_the_mesh_is_chosen(comm, tmp_path_factory):
    """Layers that are wide beside a small batch are cut, and narrow ones beside a large one are not."""
    file = comm.bcast(tmp_path_factory.mktemp("network") / "network.json" if comm.rank == 0 else None)
    on = Communicator(comm, in_blocks(comm.size, 1))
    if comm.rank == 0:
        write_json(file, Network(on.machines, 1e-5, 1e8, 1e8).to_dict())
    comm.Barrier()

    def chosen(size, **sizes):
        trainer = Trainer.open(perceptron(**sizes), data(16, size), options(mesh="auto"), on, network_file=file)
        assert f"mesh auto: {trainer.plan.on_mesh}; predicted exchanges of a step: " in trainer.reason
        return trainer.plan.on_mesh.model

    wide = chosen(1, widths=(2048, 1024))
    assert wide == 4
    assert chosen(5, widths=(8, 8)) == 1
    assert answer(comm, mesh="auto") == answer(MPI.COMM_SELF)
