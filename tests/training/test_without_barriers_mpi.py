"""Training without barriers on real ranks: its record, replayed plainly or fast, on any ranks, gives the same bits."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toys import WORKS, Lying, Recording, Toy, last, make_options, raising, refusal, toy_data

from refimpl.plain.without_barriers.owner import sha256
from refimpl.plain.without_barriers.replay import replay as replay_plainly
from refimpl.plain.without_barriers.scripted_clock import cluster
from refimpl.plan.plan import Placement, Plan
from refimpl.plan.sample import union
from refimpl.plan.without_barriers import bytes_of_last_pull, bytes_of_worker_step
from refimpl.strategies.dense_server import ServedDense
from refimpl.strategies.server import ServedRows
from refimpl.training.consistency.served.record import Record, check_possible
from refimpl.training.consistency.served.replay import replay_alone
from refimpl.training.consistency.run import left_by, stretch
from refimpl.training.consistency.served.without_barriers import WithoutBarriers
from refimpl.training.run.checkpoint import load_checkpoint, save_checkpoint
from refimpl.training.run.whole import hashes, key_of_array, sha256_of
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]
STEPS = 5
CASES = {"asynchronous": "none", "asynchronous dc": "dc-asgd", "asynchronous adaptive": "dc-asgd-adaptive",
         "bounded:0": "none", "bounded:2": "staleness-aware", "snapshot:1": "none", "softsync:1": "dc-asgd",
         "backup:0": "none", "backup:1": "none"}


def plain_plan(variables, ranks, microbatches, text):
    """The plan whose owners are those of refimpl.plain: row r on owner r mod N, the i-th variable on owner i mod N."""
    placed = (Placement(v.name, ServedRows(tuple(range(ranks)), "interleaved") if v.sparse else ServedDense((i % ranks,)))
              for i, v in enumerate(variables))
    return Plan("ps", ranks, microbatches, "auto", tuple(placed), (tuple(range(ranks)),), False, consistency=text)


def prepared(comm, case, model=None, data=None, **changes):
    """Return (model, data, options, plan) of a case on these ranks."""
    text = case.split()[0]
    model, data = model or Toy(), data or toy_data()
    correction = CASES.get(case, "none")
    said = {"work": "toy", "optimizer": "sgd" if correction == "staleness-aware" else "adam", "clip_norm": None,
            "steps": STEPS, "device": "cpu", "architecture": "ps", "consistency": text, "correction": correction}
    options = make_options(**said | changes)
    plan = replace(plain_plan(model.variables, comm.size, data.microbatches, text), machines=comm.machines)
    return model, data, replace(options, plan=plan.to_json()), plan


def run(trainer):
    """Do all steps; return their metrics, and what owners left."""
    training = begun(trainer)
    return stretch(trainer, training), left_by(training)


def begun(trainer, arrays=None):
    training = WithoutBarriers(trainer)
    training.begin(arrays)
    return training


def train(comm, case, **changes):
    """Train; return (options, plan, trainer, metrics of all steps, what owners left, hashes)."""
    model, data, options, plan = prepared(comm, case, **changes)
    trainer = Trainer.open(model, data, options, comm)
    steps, left = run(trainer)
    return options, plan, trainer, steps, left, hashes(trainer.parameters)


def replayed(model, data, options, plan, left):
    """Replay what owners left, here alone; return hashes as ``run.whole.hashes`` does."""
    record = Record(left.entries, "")
    check_possible(record, options.consistency, STEPS)
    arrays = {key_of_array(*key): whole for key, whole in replay_alone(model, data, options, plan, record).items()}
    return {"parameters_sha256": sha256_of(arrays, "parameter/"), "state_sha256": sha256_of(arrays, "state/")}


def possible(case, comm):
    """A case that so many workers can do."""
    return "backup:0" if case == "backup:1" and comm.size == 1 else case


@pytest.mark.thorough("asynchronous dc", "bounded:2", "backup:1", "snapshot")
@pytest.mark.parametrize("case", CASES)
def test_its_record_gives_the_same_bits_plainly_and_fast(comm, case):
    case, ranks = possible(case, comm), Communicator.of(comm)
    options, plan, trainer, _, left, found = train(ranks, case)
    plain = cluster(Toy(), toy_data(), options, comm.size, STEPS, options.consistency, options.correction)
    replay_plainly(*plain, trainer.model.variables, [entries.tolist() for entries in left.entries],
                   found["parameters_sha256"])
    assert left.staleness == [dict(owner.staleness) for owner in plain[0]]
    assert replayed(Toy(), toy_data(), options, plan, left) == found
    if not case.startswith("backup"):
        assert all(np.count_nonzero(entries == rank) == 2 * STEPS + 1
                   for entries in left.entries for rank in range(comm.size))
    assert not comm.iprobe()  # nothing is under way


def test_a_language_model_with_owners_of_the_architecture(comm):
    """Partitions and dense variables where the plan of ``ps`` puts them, several on an owner; carried state, padding."""
    ranks, (model, data, _) = Communicator.of(comm), WORKS["lm"]
    options = make_options("lm", "adagrad", clip_norm=None, steps=STEPS, device="cpu", architecture="ps", partitions=7,
                           consistency="asynchronous", correction="dc-asgd")
    trainer = Trainer.open(model(), data(), options, ranks)
    _, left = run(trainer)
    assert trainer.plan.consistency == "asynchronous" and not trainer.plan.local_aggregation
    again = replayed(model(), data(), options, trainer.plan, left)
    assert again == hashes(trainer.parameters)


class Waiting(Toy):
    """On the last rank the first step lasts until ``goes_on()``."""

    goes_on = staticmethod(lambda: True)

    def loss_and_gradients(self, dense, rows, batch):
        end = time.monotonic() + 60
        while not self.goes_on() and time.monotonic() < end:
            time.sleep(0.005)
        return super().loss_and_gradients(dense, rows, batch)


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("case, ahead", [("asynchronous", STEPS), ("bounded:2", 2), ("backup:0", 0)])
def test_a_slow_rank_is_waited_for_as_its_consistency_says(comm, case, ahead):
    """The last rank's first step lasts until the others, as its owner sees them, are as far as they may come."""
    ranks, model, slow = Communicator.of(comm), Waiting(), comm.size - 1
    _, data, options, _ = prepared(ranks, case)
    trainer = Trainer.open(model, data, options, ranks)
    training = begun(trainer)
    entries = min(2 * ahead + 2, 2 * STEPS + 1)  # pushes, and the pulls before and behind
    if last(comm):
        model.goes_on = lambda: training.owner.clocks[slow] > 0 or entries <= min(
            map(training.owner.record.count, range(slow)))
    training.run(lambda metrics: None)
    if last(comm):
        first_push = [i for i, worker in enumerate(training.owner.record) if worker == slow][1]
        assert {training.owner.record[:first_push].count(rank) for rank in range(slow)} == {entries}


def test_what_goes_wrong_in_a_computation_ends_all(comm):
    copy, wrong = comm.Dup(), Lying(last(comm), raising(ValueError("no gradient today")))  # messages stay under way
    trainer = Trainer.open(wrong, *prepared(Communicator.of(copy), "asynchronous")[1:3], Communicator.of(copy))
    assert "no gradient today" in refusal(copy, lambda: run(trainer))


@pytest.mark.mpi(min_size=2)
def test_a_rank_that_does_not_come_is_named(comm):
    copy = comm.Dup()
    ranks = Communicator.of(copy)
    trainer = Trainer.open(*prepared(ranks, "asynchronous")[:3], ranks)
    ranks.timeout = 0.3
    if last(comm):
        time.sleep(1.6)
    else:
        with pytest.raises(Exception, match=f"has waited 0.3 s for rank {comm.size - 1} in"):
            run(trainer)
    comm.Barrier()


def test_metrics_are_of_every_step_of_every_worker(comm):
    _, _, trainer, steps, left, _ = train(Communicator.of(comm), "asynchronous")
    assert sorted((m["worker"], m["step"]) for m in steps) == [
        (worker, step + 1) for worker in range(comm.size) for step in range(STEPS)]
    assert [m["at"] for m in steps] == sorted(m["at"] for m in steps)
    assert left.histograms == [{str(late): each[late] for late in sorted(each)} for each in left.staleness]
    assert trainer.step == STEPS


def test_plain_hash_and_ours_are_made_alike(comm):
    """What ties the two: the hash of the plain owners' parts is that of the whole arrays."""
    owners, _ = cluster(Toy(), toy_data(), make_options("toy", "adam", clip_norm=None), 3, STEPS)
    variables, plan = Toy().variables, plain_plan(Toy().variables, 3, 8, "asynchronous")
    whole = {}
    for i, v in enumerate(variables):
        whole[f"parameter/{v.name}"] = np.empty(v.shape, v.dtype) if v.sparse else owners[i % 3].values[v.name]
        for owner in range(3) if v.sparse else ():
            whole[f"parameter/{v.name}"][plan.partitioning(v).global_rows(owner)] = owners[owner].values[v.name]
    assert sha256_of(whole, "parameter/") == sha256(variables, [owner.values for owner in owners])


@pytest.mark.thorough("asynchronous adaptive", "backup:1")
@pytest.mark.parametrize("case", ["asynchronous adaptive", "backup:1", "snapshot:1", "softsync:1", "bounded:0"])
def test_a_killed_training_goes_on_to_the_same_record_and_bits(comm, case, tmp_path):
    """Cut twice, each time with answers that have not come and pushes that are held; what follows is replayed from the
    beginning."""
    case, ranks, folder = possible(case, comm), Communicator.of(comm), Path(comm.bcast(str(tmp_path)))
    model, data, options, plan = prepared(ranks, case)
    for until in (1, 3):
        trainer = Trainer.open(model, data, options, ranks)
        if until == 3:
            load_checkpoint(trainer, folder)
        training = begun(trainer, trainer.found_in_flight)
        stretch(trainer, training, until=until)
        if training.ended:  # of backup workers, whoever is always late does nothing
            break
        trainer.in_flight = training.in_flight
        save_checkpoint(trainer, folder, {})
        assert training.steps >= 0 and (comm.rank or training.steps == until)
    trainer = Trainer.open(model, data, options, ranks)
    load_checkpoint(trainer, folder)
    training = begun(trainer, trainer.found_in_flight)
    stretch(trainer, training)
    assert replayed(model, data, options, plan, left_by(training)) == hashes(trainer.parameters)


@pytest.mark.thorough("asynchronous", "backup:1")
@pytest.mark.parametrize("case", ["asynchronous", "bounded:0", "softsync:1", "backup:1"])
def test_every_byte_is_what_the_formula_says(comm, case):
    """Of every worker's steps and its last pull; a push that was dropped was sent, too."""
    case, ranks, mine = possible(case, comm), Communicator.of(comm), []
    model, data, options, plan = prepared(ranks, case)
    model = Recording(model)
    trainer = Trainer.open(model, data, options, ranks)
    training = begun(trainer)
    worker = training.serving.worker

    def note(metrics):
        touched = {name: union([each[name] for each in model.touched]) for name in worker.partitionings}
        mine.append(({name: wanted.ids for name, wanted in worker.wanted.items()}, touched))
        model.touched = []

    training.run(note)
    last_pull = {name: wanted.ids for name, wanted in worker.wanted.items()} if case.startswith("backup") else None
    expected: dict = {}
    for number, (steps, asked) in enumerate(comm.allgather((mine, last_pull))):
        for found in (*(bytes_of_worker_step(plan, model.variables, number, *step) for step in steps),
                      bytes_of_last_pull(plan, model.variables, number, asked)):
            for key, matrix in found.items():
                expected[key] = expected.get(key, 0) + matrix
    sent = {key: int(matrix[comm.rank].sum()) for key, matrix in expected.items()}
    received = {key: int(matrix[:, comm.rank].sum()) for key, matrix in expected.items()}
    for counted, told in ((ranks.ledger.sent, sent), (ranks.ledger.received, received)):
        assert {key: n for key, n in counted.items() if n} == {key: n for key, n in told.items() if n}
