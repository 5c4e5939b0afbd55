"""A training on the emulated cluster: payload and formula beside the card; machines that slow down or drop out."""

import json
import re
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

from refimpl.cli import main
from refimpl.experiments.cluster import Event, account, run_on_cluster

pytestmark = pytest.mark.usefixtures("cluster")

TRAIN = ["-m", "refimpl", "train", "lm", "--data", "synthetic:2000", "--no-output", "--heldout", "100"]
SMALL = ["--set", "hidden=64", "--set", "projection=32", "--set", "embedding=32", "--set", "samples=64"]


@pytest.mark.parametrize(("machines", "ranks", "options"), [
    (2, 1, ["--architecture", "allreduce"]),
    (3, 1, ["--architecture", "allreduce"]),
    (2, 2, ["--architecture", "ps", "--microbatches", "5"]),
])
@pytest.mark.thorough("2-1-options0")
def test_cards_payload_and_formula_stand_side_by_side(machines, ranks, options, capsys):
    argv = ["cluster", "--machines", str(machines), "--ranks-per-machine", str(ranks), "--rate", "200mbit",
            "--timeout", "100", "--json", "--", *TRAIN, *SMALL, *options, "--steps", "6"]
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    accounts = found["training"]
    assert len(accounts) == machines
    for number, of_machine in enumerate(accounts):
        assert of_machine["steps"] == 6 and of_machine["formula_steps"] == 4
        assert of_machine["formula_payload"] == of_machine["formula"], number
        assert 0 < account.framing(of_machine) <= 0.03
        for card, payload, in_all in zip(of_machine["card"], of_machine["payload"], found["machine_bytes"][number]):
            assert payload < card < in_all
    sent, received = np.sum([a["payload"] for a in accounts], axis=0)
    assert sent == received  # what crosses leaves one machine and reaches another
    if "allreduce" in options:
        assert "equal on every machine" in "\n".join(account.describe(accounts))


def test_the_table_says_where_payload_and_formula_differ():
    good = {"steps": 10, "card": [1010, 2020], "payload": [1000, 2000], "formula_steps": 1,
            "formula_payload": [100, 200], "formula": [100, 200]}
    lines = account.describe([good, {**good, "formula": [100, 201]}])
    assert re.search(r"machine +0 +card +101 / +202 +payload +100 / +200 +framing +1\.00%", lines[1])
    assert "first 1 step:" in lines[-1] and re.search(r"machine 1: payload +100 / +200, formula +100 / +201", lines[-1])
    assert "machine 0" not in lines[-1]
    assert account.describe([{**good, "formula_steps": 0}, {**good, "formula_steps": 0}]) == lines[:-1]


@pytest.mark.thorough()
def test_without_barriers_no_formula_is_checked_and_none_is_printed():
    argv = ["-m", "refimpl", "train", "lm", "--preset", "tiny", "--data", "synthetic:2000", "--heldout", "100",
            "--no-output", "--architecture", "ps", "--consistency", "asynchronous", "--steps", "3"]
    job = run_on_cluster(2, 1, "1gbit", argv, timeout=100, capture=True)
    assert job.returncode == 0, job.stderr
    for found in job.training:
        assert found["steps"] == 3 and found["formula_steps"] == 0 and found["card"] > found["payload"]
    assert "formula" not in "\n".join(account.describe(job.training))


STEPS = """
import json, time
import numpy as np
from models.lm import PRESETS
from models.workload import Workload
from refimpl.experiments.bench.training.ranks import options_of
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator
communicator = Communicator.of()
work = Workload("w", "lm", {**PRESETS["small"], "vocabulary": 1000, "samples": 64}, dict(streams=1, window=2))
trainer = Trainer.open(work.make_model(), work.make_data(communicator.size), options_of(work), communicator)
fast, slow, end = 0, 0, time.time() + 60
while communicator.share(np.array([slow < 3 and time.time() < end]), "clock")[0]:
    begin = time.time()
    trainer.train_step()
    seconds = time.time() - begin
    fast += seconds < 0.5
    slow = slow + 1 if fast >= 5 and seconds > 1.5 else 0
communicator.rank or print(json.dumps([fast, slow]), flush=True)
"""


@pytest.mark.thorough
def test_a_machine_that_slows_down_slows_the_training():
    """1.2 MB of dense gradients leave each machine in a step: 50 ms at 200 Mbit/s, and 2.4 s at 4 Mbit/s."""
    job = run_on_cluster(2, 1, "200mbit", ["-c", STEPS], timeout=100, capture=True, events=(Event(1, 4_000_000, 18.0),))
    assert job.returncode == 0, job.stderr
    fast, slow = json.loads(job.stdout.splitlines()[-1])
    assert fast >= 5 and slow == 3  # fast steps came first


@pytest.mark.thorough
def test_a_machine_that_is_cut_off_ends_the_training_with_words_on_every_rank():
    job = run_on_cluster(3, 1, "200mbit", [*TRAIN, *SMALL, "--steps", "1000000", "--timeout", "4"], timeout=100,
                         capture=True, events=(Event(1, 0, 10.0),))
    assert job.returncode != 0 and job.seconds < 60
    said = re.findall(r"refimpl: error: rank (\d) has waited 4 s for (.*) in .*\. Ranks? [0-2, ]+ may have", job.stderr)
    assert len(said) == 3, job.stderr  # ranks 0 and 2 may both say what the first of them has found
    # a rank that waits for rank 1 keeps the other one waiting, too, who then names both
    assert {late for rank, late in said if rank != "1"} <= {"rank 1", "ranks 0, 1", "ranks 1, 2"}, job.stderr
    assert dict(said)["1"] in ("ranks 0, 2", "rank 0", "rank 2"), job.stderr  # whoever it awaited


def test_when_a_rank_has_died_the_others_begin_a_new_account(monkeypatch):
    cards = count(0, 10)
    monkeypatch.setattr(account, "card_bytes", lambda: (next(cards), 0))
    all_ranks, living = (SimpleNamespace(agree=lambda: None, ledger=SimpleNamespace(total=lambda _: 100))
                         for _ in range(2))
    trainer = SimpleNamespace(step=0, comm=all_ranks, options=SimpleNamespace(consistency="asynchronous"))
    found = account.Account(all_ranks)
    for _ in range(2):
        with found.step(trainer):
            trainer.step += 1
        all_ranks.agree, trainer.comm = None, living  # MPI has revoked the first one
    assert found.comm is living and found.steps == 1 and found.card.tolist() == [10, 0]
