"""No step is done at a learning rate of 0 that nobody asked for: the schedule lasts as long as the training."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI
from test_flight import CASES, WORKERS, go_on, made, prepared
from toys import Toy, make_options, refusal, toy_data

from kernels.update.rates import RATES, rate_of
from refimpl.training.run.directory import read_metrics
from refimpl.training.schedule import check_schedule, updates_of
from refimpl.training.session import train

SELF = MPI.COMM_SELF
SHORT = make_options("toy", "adam", steps=3, rate_steps=3, warmup=1)
FALLS_TO_ZERO = ("linear", "cosine")


def run(path, options, **more):
    return train(Toy(), toy_data(), options=options, comm=SELF, output=path, **more)


@pytest.mark.parametrize("rate", RATES)
def test_a_resume_beyond_the_schedule(rate, tmp_path):
    short = replace(SHORT, rate=rate)
    run(tmp_path, short)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    longer = replace(short, steps=6)
    if rate in FALLS_TO_ZERO:
        said = refusal(SELF, lambda: run(tmp_path, longer, resume=tmp_path))
        assert f"the {rate} schedule" in said and "0 after step 3" in said and "give --rate-steps 6" in said
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
        longer = replace(longer, rate_steps=6)
    run(tmp_path, longer, resume=tmp_path)
    told = {"base": SHORT.learning_rate, "rate": rate, "warmup": 1}
    found = [line["learning_rate"] for line in read_metrics(tmp_path)]
    assert found == [rate_of(step, **told, steps=3 if step < 3 else longer.rate_steps) for step in range(6)]
    assert min(found) > 0


@pytest.mark.parametrize("steps, rate_steps, words", [
    (3, 6, "rate_steps was 3 and is now 6"), (6, 2, "rate_steps was 3 and is now 2"), (6, 5, "give --rate-steps 6")])
def test_a_schedule_is_changed_only_to_last(steps, rate_steps, words, tmp_path):
    run(tmp_path, SHORT)
    longer = replace(SHORT, steps=steps, rate_steps=rate_steps)
    assert words in refusal(SELF, lambda: run(tmp_path, longer, resume=tmp_path))


def test_a_new_training_needs_a_schedule_that_lasts(tmp_path):
    too_short = replace(SHORT, steps=4)
    assert "give --rate-steps 4" in refusal(SELF, lambda: run(tmp_path / "run", too_short))
    assert not (tmp_path / "run").exists()
    assert run(None, replace(too_short, learning_rate=0)).steps == 4  # as is asked for


@pytest.mark.parametrize("warmup, rate_steps", [(0, 0), (0, 1), (0, 4), (3, 1), (3, 3), (3, 5), (4, 5)])
@pytest.mark.parametrize("rate", RATES)
def test_refused_is_what_has_a_step_at_rate_zero(rate, warmup, rate_steps):
    for steps in range(9):
        options = replace(SHORT, rate=rate, warmup=warmup, rate_steps=rate_steps, steps=steps)
        rates = [rate_of(step, base=1.0, rate=rate, warmup=warmup, steps=rate_steps) for step in range(steps)]
        try:
            check_schedule(options, 4)
        except ValueError:
            assert 0 in rates
        else:
            assert 0 not in rates


@pytest.mark.parametrize("case", [*CASES, "softsync:3"])
def test_without_barriers_it_counts_an_owners_updates(case):
    options, plan = prepared(case)
    ranks, boxes = made(options, plan)
    go_on(ranks, boxes, np.random.default_rng(1))
    updates = {rank.owner.version for rank in ranks}
    assert updates == {updates_of(options, WORKERS)}
    with pytest.raises(ValueError, match=f" {max(updates)} .*: give --rate-steps {max(updates)} "):
        check_schedule(replace(options, rate_steps=max(updates) - 1), WORKERS)
