"""A record alone gives the training again, to the bit; one that no training can have left is refused in words."""

import itertools

import pytest
from springs import random_clock
from toys import Toy, make_options, toy_data

from refimpl.plain.without_barriers import replay as replaying
from refimpl.plain.without_barriers.corrections import CORRECTIONS
from refimpl.plain.without_barriers.owner import sha256
from refimpl.plain.without_barriers.replay import replay
from refimpl.plain.without_barriers.scripted_clock import cluster, main as draw, run

RULES = ("synchronous", "asynchronous", "bounded:1", "snapshot:2", "softsync:2", "backup:1")
WORKERS, STEPS, MODEL = 3, 4, Toy()


def made(rule, correction="none", optimizer="momentum", microbatches=WORKERS, workers=WORKERS):
    options = make_options("toy", optimizer, clip_norm=None)
    return cluster(MODEL, toy_data(microbatches), options, workers, STEPS, rule, correction)


def trained(rule, *how, seed=1, workers=WORKERS, **more):
    """Train the toy by a random clock; return (hash of the parameters, records)."""
    owners, shares = made(rule, *how, workers=workers, **more)
    run(owners, shares, MODEL.variables, random_clock(seed, workers, 3.0))
    return sha256(MODEL.variables, [owner.values for owner in owners]), [owner.record for owner in owners]


@pytest.mark.parametrize("rule", RULES)
def test_a_replay_has_the_bits_of_the_training(rule):
    for correction in CORRECTIONS:
        optimizer = "sgd" if correction == "staleness-aware" else "adam"
        expected, records = trained(rule, correction, optimizer)
        replay(*made(rule, correction, optimizer), MODEL.variables, records, expected)


@pytest.mark.parametrize("workers, microbatches", [(1, 3), (2, 5), (5, 3), (4, 8)])
def test_any_number_of_workers_and_microbatches(workers, microbatches):
    """Also workers without a microbatch: they push nothing, and their clocks go on."""
    how = {"workers": workers, "microbatches": microbatches}
    expected, records = trained("asynchronous", **how)
    replay(*made("asynchronous", **how), MODEL.variables, records, expected)
    assert all(len(record) == workers * (2 * STEPS + 1) for record in records)
    assert all(record.count(worker) == 2 * STEPS + 1 for record in records for worker in range(workers))


def test_another_order_gives_other_bits_but_a_script_the_same():
    hashes = {seed: trained("asynchronous", seed=seed)[0] for seed in range(4)}
    assert len(set(hashes.values())) == 4
    assert hashes == {seed: trained("asynchronous", seed=seed)[0] for seed in range(4)}
    synchronous = {trained("synchronous", seed=seed)[0] for seed in range(4)}
    assert len(synchronous) == 1  # whoever is slow


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adagrad", "adam"])
def test_no_compensation_is_plain_asynchronous(optimizer):
    """λ = 0."""
    plain, _ = trained("asynchronous", optimizer=optimizer)
    for correction, same in itertools.product(("dc-asgd", "dc-asgd-adaptive"), (True, False)):
        owners, shares = made("asynchronous", correction, optimizer)
        for owner in owners:
            owner.correction.lam *= not same
        run(owners, shares, MODEL.variables, random_clock(1, WORKERS, 3.0))
        assert (sha256(MODEL.variables, [owner.values for owner in owners]) == plain) == same


def refused(rule, records, expected=None):
    """Return the words with which a replay ends; None: it is the training, to the bit."""
    try:
        replay(*made(rule), MODEL.variables, records, expected)
    except ValueError as problem:
        return str(problem)
    return None


@pytest.mark.parametrize("rule", RULES)
def test_a_record_that_is_cut_is_refused(rule):
    expected, records = trained(rule)
    for owner, left in itertools.product(range(WORKERS), (0, 1, 7, len(records[0]) - 1)):
        cut = [record[:left] if i == owner else record for i, record in enumerate(records)]
        words = refused(rule, cut)
        assert "missing, swapped or damaged" in words or "they are cut" in words
    assert "2 records of 3 owners" in refused(rule, records[:2], expected)
    assert refused(rule, records, expected) is None


@pytest.mark.parametrize("rule", RULES)
def test_swapped_entries_are_refused_unless_they_give_the_same_bits(rule):
    expected, records = trained(rule)
    words = []
    for i in range(len(records[0]) - 1):
        entries = list(records[0])
        entries[i:i + 2] = entries[i + 1], entries[i]
        if entries != records[0]:
            words.append(refused(rule, [entries, *records[1:]], expected))
            assert words[-1] is None or "swapped" in words[-1]
    assert any(words) or rule == "synchronous"  # whose bits depend on no order: only whole steps could be swapped


def test_damage_is_named_with_its_place():
    expected, records = trained("bounded:1")
    first = records[0]
    for entries, words in [
        ([*first[:5], 7, *first[6:]], "owner 0, entry 5: there is no worker 7, only 3"),
        ([*first[:5], -1, *first[6:]], "owner 0, entry 5: there is no worker -1, only 3"),
        ([*first[:5], first[4], *first[5:]], "swapped or damaged"),
        ([*first, 0], f"owner 0, entry {len(first)}: worker 0 pushes, but it has finished"),
    ]:
        assert words in refused("bounded:1", [entries, *records[1:]])
    assert "owner 0, entry 4: worker 0 pulls, but bounded:1 lets it wait" in refused("bounded:1", [[0] * 9] * WORKERS)
    assert "worker 1 pushes, but it has not pulled from all owners" in refused("asynchronous", [[1, 1], [0, 0], [2]])


def test_another_training_than_the_records_is_refused():
    expected, records = trained("asynchronous")
    words = refused("asynchronous", records, trained("asynchronous", seed=2)[0])
    assert f"the records give parameters {expected[:12]}…, but the training ended with" in words
    with pytest.raises(ValueError, match="model, data or options differ"):
        replay(*made("asynchronous", optimizer="sgd"), MODEL.variables, records, expected)


def test_the_files_show_it(capsys):
    replaying.main()
    draw()
    out = capsys.readouterr().out
    assert out.count("replayed to") == 5 and "backup:1: 6 s, 6 updates" in out and "worker 0  0..1..2..3..4..5.." in out
