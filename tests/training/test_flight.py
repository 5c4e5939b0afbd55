"""A training without barriers, cut anywhere: what is in flight goes into arrays and back, and the end is the same."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from test_without_barriers_mpi import STEPS, plain_plan
from toys import Toy, make_options, toy_data

from models import Variable
from refimpl.training.consistency.served.flight import arrays_of, check_fits, digest_of, restore, steps_done
from refimpl.training.consistency.served.owner import Owner
from refimpl.training.consistency.served.record import Record, check_possible, entries_of
from refimpl.training.consistency.served.replay import Seat, replay_alone
from refimpl.training.consistency.served.serving import FirstCome, Serving
from refimpl.training.consistency.served.without_barriers import shards_of
from refimpl.training.consistency.served.worker import AsyncWorker
from refimpl.training.parameters import Parameters
from refimpl.training.session import train
from refimpl.transport import CollectiveError, Communicator

WORKERS = 3
CASES = ["asynchronous", "asynchronous dc-asgd-adaptive", "bounded:1", "snapshot:1 dc-asgd", "softsync:1", "backup:1"]


def prepared(case):
    text, _, correction = case.partition(" ")
    options = make_options("toy", "adam", clip_norm=None, steps=STEPS, device="cpu", architecture="ps",
                           consistency=text, correction=correction or "none")
    return options, plain_plan(Toy().variables, WORKERS, 8, text)


def made(options, plan, model=Toy):
    """Return the ranks of a training, which send letters to boxes here, and the boxes."""
    boxes, ranks = [deque() for _ in range(WORKERS)], []
    for number in range(WORKERS):
        seat = Seat(number, WORKERS, boxes)
        shards = shards_of(Parameters(model().variables, plan, seat, 0, options.optimizer))
        worker = AsyncWorker(model(), toy_data(), options, plan, number)
        ranks.append(Serving(Owner(shards, WORKERS, options), worker, seat, FirstCome(), seat.ledger))
    return ranks, boxes


def deliver(rank, box, sender=None):
    """Let the first letter come, or the first of a sender: those of two ranks keep their order, no others."""
    letter = box[0] if sender is None else next(letter for letter in box if letter.sender == sender)
    box.remove(letter)
    rank.receive(int(letter.next(np.int64)), letter)


def go_on(ranks, boxes, rng, events=10**9):
    """Let letters come and workers compute in a random order, so many times; return whether there was so much to do."""
    for _ in range(events):
        can = [(deliver, rank, box, sender) for rank, box in zip(ranks, boxes)
               for sender in dict.fromkeys(letter.sender for letter in box)]
        can += [(step, rank) for rank in ranks if rank.ready or not rank.asked and not rank.over]
        if not can:
            return False
        what, *arguments = can[rng.integers(len(can))]
        what(*arguments)
    return True


def step(rank):
    if rank.ready and rank.asked:
        rank.worker.compute()
        rank.push()
    else:
        rank.pull()


def in_flight(ranks, boxes):
    """Read all letters, as at a cut; return the arrays of what is in flight then."""
    while any(boxes):
        for rank, box in zip(ranks, boxes):
            while box:
                deliver(rank, box)
    return {name: np.array(array) for rank in ranks for name, array in arrays_of(rank, 1.5).items()}


def cut(ranks, boxes, options, plan, model=Toy):
    """Return new ranks that go on from what is in flight."""
    arrays = in_flight(ranks, boxes)
    again, boxes = made(options, plan, model)
    for before, rank in zip(ranks, again):
        for name, shard in rank.owner.shards.items():
            for slot in (None, *shard.state):
                shard.array(slot)[...] = before.owner.shards[name].array(slot)
        rank.worker.carried = {v: dict(state) for v, state in before.worker.carried.items()}
        assert restore(rank, arrays) == 1.5
    return again, boxes


@pytest.mark.thorough("dc-asgd-adaptive", "snapshot", "backup")
@pytest.mark.parametrize("case", CASES)
def test_a_training_cut_anywhere_ends_as_its_record_says(case):
    options, plan = prepared(case)
    rng, partly, held = np.random.default_rng(3), 0, 0
    for events in (0, 13, 31):
        ranks, boxes = made(options, plan)
        while go_on(ranks, boxes, rng, max(1, events)):  # and again and again
            if events:
                partly += any(rank.asked and 0 < len(rank.worker.answers) < WORKERS for rank in ranks)
                held += any(rank.owner.consistency.held for rank in ranks)
                ranks, boxes = cut(ranks, boxes, options, plan)
        assert all(rank.over for rank in ranks)
        record = Record([entries_of(rank.owner.record, WORKERS) for rank in ranks], "")
        check_possible(record, options.consistency, STEPS)
        again = replay_alone(Toy(), toy_data(), options, plan, record)
        for v in Toy().variables:
            owner = plan.strategies[v.name].owners[0]
            mine = ranks[owner].owner.shards[v.name].values
            whole = again[v.name, None]
            assert mine.tobytes() == (whole[plan.partitioning(v).global_rows(owner)] if v.sparse else whole).tobytes()
    assert partly and (held or case.split(":")[0] not in ("snapshot", "softsync"))


def test_what_is_in_flight_is_refused_where_it_does_not_fit():
    options, plan = prepared("asynchronous")
    ranks, boxes = made(options, plan)
    go_on(ranks, boxes, np.random.default_rng(0), 90)
    arrays = in_flight(ranks, boxes)
    check_fits(plan, STEPS, arrays)
    assert len(steps_done(arrays)) == WORKERS and 1 < max(steps_done(arrays).values()) <= STEPS
    for steps in (STEPS - 1, STEPS + 1):
        with pytest.raises(ValueError, match=f"training of {STEPS} steps;.* resume with as many --steps, not {steps}"):
            check_fits(plan, steps, arrays)
    with pytest.raises(ValueError, match="uses another row partitioning"):
        check_fits(plan, STEPS, arrays | {"flight/plan": digest_of(replace(plan, placements=plan.placements[1:]))})
    with pytest.raises(ValueError, match="of 2 workers, each at a step of its own: resume on 2 ranks, not 3"):
        check_fits(plan, STEPS, {name: array for name, array in arrays.items() if not name.startswith("flight/worker/2")})


class OneVariable:
    """A model whose only variable leaves most owners without any."""

    variables = [Variable("w", (3,))]

    def rows_needed(self, batch):
        return {}

    def loss_and_gradients(self, dense, rows, batch):
        return 1.0, {"w": dense["w"] - np.float32(len(batch.inputs))}


def test_an_owner_of_nothing_is_cut_and_goes_on():
    options = make_options("toy", "sgd", clip_norm=None, steps=STEPS, device="cpu", architecture="ps",
                           consistency="asynchronous")
    plan, rng = plain_plan(OneVariable.variables, WORKERS, 8, "asynchronous"), np.random.default_rng(5)
    ranks, boxes = made(options, plan, OneVariable)
    while go_on(ranks, boxes, rng, 11):
        ranks, boxes = cut(ranks, boxes, options, plan, OneVariable)
    record = Record([entries_of(rank.owner.record, WORKERS) for rank in ranks], "")
    check_possible(record, "asynchronous", STEPS)
    again = replay_alone(OneVariable(), toy_data(), options, plan, record)
    assert again["w", None].tobytes() == ranks[0].owner.shards["w"].values.tobytes()


@pytest.mark.parametrize("how", ["ended", "steps", "gossip"])
def test_a_resume_that_is_refused_writes_nothing(tmp_path, how):
    options = make_options("toy", "adam", clip_norm=None, steps=4, device="cpu", architecture="ps",
                           consistency="asynchronous")
    if how == "gossip":
        options = replace(options, architecture="allreduce", consistency="gossip")
    alone = {"comm": Communicator.alone(), "output": tmp_path / "run"}
    train(Toy(), toy_data(), options=options, checkpoint_every=None if how == "gossip" else 2, **alone)
    if how == "steps":
        (tmp_path / "run" / "checkpoint-4.json").unlink()
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(CollectiveError, match={"ended": "finished at step 4;.* Start a new", "steps": "of 4 steps;",
                                               "gossip": "leave --resume out"}[how]):
        train(Toy(), toy_data(), options=replace(options, steps=6), resume=tmp_path / "run", **alone)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
