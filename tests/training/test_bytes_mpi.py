"""Every byte is accounted for (docs/design.md, I2): the ledger equals the cost formulas.

That these are the table of the paper: tests/plan/test_cost_table.py; as it is measured: tests/experiments.
"""

import ctypes

import numpy as np
import pytest
from mpi4py import MPI
from toys import BY_ROWS, WORKS, Recording, Script, Scripted, make_options

from refimpl.gradients import cover, leaves_of
from refimpl.plan import predict_crossing, predict_step
from refimpl.server.row_numbers import HEAD
from refimpl.training.session import train
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator, rounds
from refimpl.transport.machines import in_blocks
from refimpl.transport.messages import MpiPrepared

pytestmark = pytest.mark.ranks(3, 4)

SETTINGS = [dict(architecture="allreduce"), dict(architecture="allreduce", sparse_as_dense=True),
            dict(architecture="ps"),
            dict(architecture="hybrid"),
            dict(architecture="allreduce", shard_optimizer=True),
            dict(architecture="hybrid", partitions=7, scheme="interleaved", allreduce="direct"),
            dict(architecture="hybrid", partitions=1, allreduce="ring")]
MACHINES = {"alone": lambda n: in_blocks(n, 1), "pairs": lambda n: in_blocks(n, 2), "threes": lambda n: in_blocks(n, 3),
            "odd and even": lambda n: tuple(m for m in (tuple(range(0, n, 2)), tuple(range(1, n, 2))) if m)}
ON_MACHINES = [dict(architecture="ps"), dict(architecture="ps", partitions=1, local_aggregation=False),
               dict(architecture="ps", partitions=1),
               dict(architecture="hybrid", allreduce="hierarchical", overlap=False),
               dict(architecture="hybrid", partitions=13, scheme="interleaved", allreduce="direct"),
               dict(architecture="hybrid", partitions=6, allreduce="hierarchical", local_aggregation=False),
               dict(architecture="allreduce", allreduce="hierarchical"),
               dict(architecture="allreduce", shard_optimizer=True)]


class Metered:
    """A communicator that weighs the messages themselves, whatever the ledger says of them."""

    def __init__(self, comm):
        self.comm, self.machine = comm, ()
        self.clear()

    def clear(self):
        self.sent, self.received, self.crossed_sent, self.crossed_received = 0, 0, 0, 0
        self.rooms = []

    def weigh(self, direction, nbytes, peer):
        for counter in (direction, f"crossed_{direction}")[:1 + (peer not in self.machine)]:
            setattr(self, counter, getattr(self, counter) + nbytes)

    def __getattr__(self, name):
        return getattr(self.comm, name)

    def Isend(self, array, peer, *tag):
        self.weigh("sent", array.nbytes, peer)
        return self.comm.Isend(array, peer, *tag)

    def Irecv(self, array, peer, tag):
        if array.dtype == np.uint8 and array.size >= 8 * HEAD:  # row numbers, and rows: fewer may come
            array.fill(255)  # with which none of them ends
            self.rooms.append((array, peer))
        else:
            self.weigh("received", array.nbytes, peer)
        return self.comm.Irecv(array, peer, tag)

    def weigh_rooms(self):
        """Weigh what has come into rooms that may be larger."""
        for array, peer in self.rooms:
            self.weigh("received", len(array.tobytes().rstrip(b"\xff")), peer)

    def Send_init(self, array, peer, tag):
        return Weighed(self.comm.Send_init(array, peer, tag)).of(self, "sent", array.nbytes, peer)

    def Recv_init(self, array, peer, tag):
        return Weighed(self.comm.Recv_init(array, peer, tag)).of(self, "received", array.nbytes, peer)


def weigh_nccl(meter, transport):
    """Let a meter weigh what goes from device to device without MPI, too."""
    if transport is None or transport.name != "nccl":
        return
    start = transport.start

    def weighed(sends, receives, what):
        for direction, messages in (("sent", sends), ("received", receives)):
            for peer, array in messages:
                meter.weigh(direction, array.nbytes, peer)
        return start(sends, receives, what)

    transport.start = weighed


class Weighed(MPI.Prequest):
    """A persistent request that is weighed each time it starts."""

    by_handle: dict[bytes, "Weighed"] = {}
    """Compiled rounds start requests by their handles."""

    def of(self, meter, *what):
        self.meter, self.what = meter, what
        self.by_handle[rounds.handle_of(self)] = self
        return self


def start_weighed(prepared, start=MpiPrepared.start):
    """Start persistent requests together, which ``Weighed`` itself does not notice; weigh those of a meter."""
    for request in prepared.requests:
        if isinstance(request, Weighed):
            request.meter.weigh(*request.what)
    start(prepared)


MpiPrepared.start = start_weighed
HANDLE = MPI._sizeof(MPI.Request)
STARTALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
startall, testall = rounds.addresses()


@STARTALL
def startall_weighed(count, requests):
    """Weigh what compiled rounds start, and start it."""
    for at in range(count):
        if weighed := Weighed.by_handle.get(ctypes.string_at(requests + at * HANDLE, HANDLE)):
            weighed.meter.weigh(*weighed.what)
    return STARTALL(startall)(count, requests)


rounds.addresses = lambda: [ctypes.cast(startall_weighed, ctypes.c_void_p).value, testall]


def union(id_lists):
    return np.unique(np.concatenate([np.empty(0, np.int64), *id_lists]))


def rows_of_step(comm, recording, data, step):
    """Return (pulled, pushed) as predict_step wants them, from what each rank's model was asked and answered."""
    leaves = [v for v in leaves_of(comm.rank, comm.size, data.microbatches) if data.microbatch(step, v) is not None]
    needed, touched = dict(zip(leaves, recording.needed)), dict(zip(leaves, recording.touched))
    assert len(recording.needed) >= len(recording.touched) == len(leaves)  # a device reads its next batches, too
    names = [v.name for v in recording.variables if v.sparse]
    pulled = {name: union(ids[name] for ids in needed.values()) for name in names}
    pushed = {name: [union(touched[v][name] for v in leaves if v >> node.level == node.index)
                     for node in cover(leaves_of(comm.rank, comm.size, data.microbatches))] for name in names}
    recording.needed, recording.touched = recording.needed[len(leaves):], []
    everyone = comm.allgather((pulled, pushed))
    return tuple({name: [part[i][name] for part in everyone] for name in names} for i in (0, 1))


def counted(ledger, prefix=""):
    """Return (phase, variable, kind) -> (sent, received), as predict_step returns it. prefix: "crossed_" or none."""
    sent, received = getattr(ledger, f"{prefix}sent"), getattr(ledger, f"{prefix}received")
    found = {key: (sent.get(key, 0), received.get(key, 0)) for key in {*sent, *received}}
    return {key: value for key, value in found.items() if value != (0, 0)}


def differences(found, expected):
    pairs = {key: (found.get(key), expected.get(key)) for key in {*found, *expected}}
    return {key: (left, right) for key, (left, right) in pairs.items() if left != right}


def check(comm, work, microbatches, settings, machines=None):
    """Train three steps; compare each one's ledger with the prediction, on every rank."""
    model, make_data, _ = WORKS[work]
    recording, data = Recording(model()), make_data(microbatches)
    meter = Metered(comm)
    # what shared memory saves from being a message cannot be weighed as one
    communicator = Communicator(meter, machines) if machines else Communicator.of(meter)
    meter.machine = communicator.machine
    trainer = Trainer.open(recording, data, make_options(work, "sgd", shared_memory=False, **settings), communicator)
    recording.needed.clear()  # what was looked up for the plan
    weigh_nccl(meter, communicator.device_transport)
    for step in range(3):
        meter.clear()
        trainer.train_step()
        meter.weigh_rooms()
        for way in ("sent", "received", "crossed_sent", "crossed_received"):
            assert getattr(meter, way) == trainer.comm.ledger.total(way), way
        pulled, pushed = rows_of_step(comm, recording, data, step)
        predicted = predict_step(trainer.plan, recording.variables, pulled, pushed, comm.rank)
        found = counted(trainer.comm.ledger)
        assert differences(found, predicted) == {}
        check_crossing(comm, trainer, recording.variables, pulled, pushed)
        for way, other in ((0, 1), (1, 0)):  # what one rank sends another receives
            both = comm.allgather((sum(v[0] for v in found.values()), sum(v[1] for v in found.values())))
            assert sum(rank[way] for rank in both) == sum(rank[other] for rank in both)
    return trainer, found, predicted


def check_crossing(comm, trainer, variables, pulled, pushed):
    """Compare what leaves and reaches this rank's machine with the prediction."""
    plan, mine = trainer.plan, counted(trainer.comm.ledger, "crossed_")
    assert differences(mine, predict_step(plan, variables, pulled, pushed, comm.rank, crossing=True)) == {}
    everyone = comm.allgather(mine)
    machine, mates = next((i, ranks) for i, ranks in enumerate(plan.machines) if comm.rank in ranks)
    found = {}
    for key in {key for rank in mates for key in everyone[rank]}:
        found[key] = tuple(sum(everyone[rank].get(key, (0, 0))[way] for rank in mates) for way in (0, 1))
    assert differences(found, predict_crossing(plan, variables, pulled, pushed, machine)) == {}


@pytest.mark.mpi
@pytest.mark.ranks(3)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.thorough("toy")
def test_the_ledger_is_the_prediction(comm, work, settings):
    for microbatches in (7, 2) if work == "toy" and settings.get("allreduce") != "ring" else (8,):
        check(comm, work, microbatches, settings)


@pytest.mark.mpi
@pytest.mark.parametrize("settings", ON_MACHINES, ids=str)
@pytest.mark.parametrize("machines", MACHINES)
@pytest.mark.thorough("odd and even-{'architecture': 'hybrid'", "pairs-{'architecture': 'ps'")
def test_the_ledger_is_the_prediction_on_machines(comm, machines, settings):
    check(comm, "toy", 7, settings, MACHINES[machines](comm.size))


@pytest.mark.mpi
@pytest.mark.ranks(3)
@pytest.mark.parametrize("settings", [
    *BY_ROWS, SETTINGS[4], dict(architecture="ps", partitions=1, local_aggregation=False),
    dict(architecture="hybrid", partitions=5, scheme="interleaved", local_aggregation=False)], ids=str)
@pytest.mark.thorough("partitions=5", "{'architecture': 'hybrid'}")
def test_the_ledger_is_the_prediction_beside_the_computation(comm, monkeypatch, settings):
    """Each dense variable in a bucket of its own, rows in rounds; on machines of one rank, and of several."""
    monkeypatch.setattr("refimpl.plan.buckets.BUCKET", 1)
    for each in (1, -(-comm.size // 2)):
        check(comm, "toy", 7, {**settings, "overlap": True}, in_blocks(comm.size, each))
    check(comm, "lm", 8, {**settings, "overlap": True}, in_blocks(comm.size, 1))


WHOLE = Scripted, lambda microbatches: Script([[{row: (1.5, 2.0) for row in range(8)}] * 8, [{3: (1.0, 2.0)}] * 8]), {}
"""All rows in the first step, one of 8 in the next: what decides is the first."""


@pytest.mark.mpi
@pytest.mark.parametrize("more", [{}, {"overlap": True}, {"codec": {"rows": "bf16"}}], ids=str)
def test_the_ledger_is_the_prediction_where_hybrid_sends_a_table_whole(comm, monkeypatch, more):
    monkeypatch.setitem(WORKS, "script", WHOLE)
    for each, allreduce in ((comm.size, "auto"), (1, "direct"), (2, "hierarchical"))[:2 + (comm.size == 4)]:
        settings = {"architecture": "hybrid", "allreduce": allreduce, **more}
        trainer, found, _ = check(comm, "script", 8, settings, in_blocks(comm.size, each))
        assert trainer.plan.strategies["rows"].name == "as-dense" and trainer.plan.architecture == "hybrid"
        assert {phase for phase, name, _ in found if name == "rows"} == {"allreduce"}
        assert "hybrid: whole, by allreduce, go rows (α = 1: " in trainer.reason


@pytest.mark.mpi(min_size=8)
@pytest.mark.parametrize("settings", ON_MACHINES, ids=str)
@pytest.mark.parametrize("machines", MACHINES)
def test_the_ledger_is_the_prediction_on_machines_of_eight_ranks(comm, machines, settings):
    check(comm, "toy", 11, settings, MACHINES[machines](comm.size))


@pytest.mark.mpi(min_size=8)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_ledger_is_the_prediction_on_eight_ranks(comm, settings):
    for work in ("toy", "lm"):
        check(comm, work, 8, settings)


@pytest.mark.mpi(min_size=2)
def test_the_comparison_sees_one_byte(comm):
    trainer, found, predicted = check(comm, "toy", 8, dict(architecture="hybrid"))
    key = "push", "table", "rows"
    trainer.comm.ledger.sent[key] += 1
    wrong = found[key][0] + 1, found[key][1]
    assert differences(counted(trainer.comm.ledger), predicted) == {key: (wrong, predicted[key])}
    trainer.comm.ledger.clear()
    trainer.comm.ledger.sent["push", "ghost", "rows"] += 1
    assert ("push", "ghost", "rows") in differences(counted(trainer.comm.ledger), {})


@pytest.mark.mpi
@pytest.mark.ranks(3)
def test_a_result_says_whether_dense_bytes_were_read_instead_of_sent(comm):
    """Where no message carries them: by a canonical allreduce among several ranks of one machine."""
    def read_in_place(communicator=comm, **settings):
        options = make_options("toy", "sgd", device="cpu", steps=1, **settings)
        return train(WORKS["toy"][0](), WORKS["toy"][1](8), options=options, comm=communicator).shared_memory

    several = comm.size > 1
    assert read_in_place() == read_in_place(architecture="allreduce", sparse_as_dense=True) == several
    assert not any(map(lambda settings: read_in_place(**settings), (
        dict(architecture="ps"), dict(allreduce="ring"), dict(shared_memory=False))))
    for each in (1, 2):
        machines = in_blocks(comm.size, each)
        hierarchical = read_in_place(Communicator(comm, machines), allreduce="hierarchical")
        assert hierarchical == (several and len(machines) == 1)
