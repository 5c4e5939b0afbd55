"""Plans in training: auto and edited ones are the same on all ranks, and move no bit (docs/design.md, I1)."""

import json
from dataclasses import replace

import pytest
from mpi4py import MPI
from toys import (
    WORKS, Lying, Script, Scripted, answer, lm_data, make_options, make_trainer, raising, refusal, toy_data,
)

from refimpl.plan import Plan, make_plan
from refimpl.plan.partitions.balance import by_popularity
from refimpl.plan.sample import take_sample
from refimpl.training.run.directory import read_metrics
from refimpl.training.session import train
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = pytest.mark.ranks(1, 3)
NO_ROWS = Lying(needs=raising(RuntimeError("no rows today")))


def mixed(comm, work="toy", **changes):
    """A plan in which the variables of each kind have different strategies, as someone might have written it."""
    model, data, _ = WORKS[work]
    variables, strategies = model().variables, {}
    for i, variable in enumerate(v for v in variables if v.sparse):
        strategies[variable.name] = ("as-dense", "server", "allgather")[i % 3]
    for i, variable in enumerate(v for v in variables if not v.sparse):
        strategies[variable.name] = ("allreduce", "server")[i % 2]
    plan = make_plan(variables, "auto", comm.size, 8, machines=in_blocks(comm.size, 2), strategies=strategies,
                     partitions=3)
    return json.loads(json.dumps(replace(plan, **changes).to_json()))


def on_machines(comm, each=2):
    return Communicator(comm, machines=in_blocks(comm.size, each))


@pytest.mark.mpi
@pytest.mark.parametrize("work", ["toy", "lm", "cnn"])
@pytest.mark.thorough("lm")
def test_auto_and_edited_plans_give_the_one_answer(comm, work):
    expected = answer(work, "adagrad", comm, architecture="hybrid")
    assert answer(work, "adagrad", on_machines(comm), architecture="auto") == expected
    assert answer(work, "adagrad", on_machines(comm), plan=mixed(comm, work)) == expected
    assert answer(work, "adagrad", on_machines(comm), plan=mixed(comm, work), overlap=True) == expected


@pytest.mark.mpi
def test_all_ranks_have_the_same_plan_and_reason(comm):
    for each in (1, 2, 4):
        trainer = make_trainer("lm", "sgd", on_machines(comm, each), architecture="auto")
        plans = comm.allgather((json.dumps(trainer.plan.to_json()), trainer.reason))
        assert len(set(plans)) == 1
        assert trainer.plan.architecture == "auto" and "rule: begin with" in trainer.reason
        assert Plan.from_json(json.loads(plans[0][0])) == trainer.plan


@pytest.mark.mpi
def test_a_given_plan_is_followed(comm):
    trainer = make_trainer("toy", "sgd", on_machines(comm), plan=mixed(comm))
    assert {name: strategy.name for name, strategy in trainer.plan.strategies.items()} == {
        "table": "as-dense", "rare": "server", "weight": "allreduce", "empty": "server", "bias": "allreduce",
        "scale": "server", "mean": "allreduce"}
    assert trainer.reason is None


@pytest.mark.mpi
def test_a_plan_that_does_not_fit_is_refused_on_all_ranks(comm):
    """What else is refused of a plan: tests/plan/test_validate.py."""
    said = refusal(comm, lambda: make_trainer("toy", "sgd", on_machines(comm), plan=mixed(comm, ranks=99)))
    assert "the plan is for 99 ranks" in said


@pytest.mark.mpi(min_size=2)
def test_ranks_that_were_given_different_plans_stop(comm):
    plan = mixed(comm, local_aggregation=comm.rank == 1)
    words = refusal(comm, lambda: make_trainer("toy", "sgd", on_machines(comm), plan=plan))
    assert "the ranks disagree: plan is" in words


def whole_answer(comm, output, resume=None, steps=4, **settings):
    """Train on rows of which the first step touches all, later ones few; return the bits, and what was told on rank 0.
    """
    some = [{row: (1.5 ** row, -row) for row in range(v, 8, 3)} for v in range(8)]
    every, said = [{row: (0.1 * row, v) for row in range(8)} for v in range(8)], []
    options = make_options("toy", "adam", steps=steps, clip_norm=0.5, **settings)
    result = train(Scripted(), Script([every, some, some[::-1]]), options=options, comm=comm, output=output,
                   resume=resume, announce=said.append)
    return (result.parameters_sha256, result.state_sha256), said


def goes(folder):
    return Plan.from_json(json.loads((folder / "plan.json").read_text())).strategies["rows"].name


@pytest.mark.mpi
@pytest.mark.ranks(1, 3, 4)
def test_hybrid_sends_a_table_whole_that_the_first_step_touches_whole(comm, mpi_tmp_path):
    """One answer; a checkpoint goes on with it on another number of ranks, where the table goes another way."""
    bits, _ = whole_answer(comm, mpi_tmp_path / "ps", architecture="ps")
    for number, asked in enumerate(({}, {"partitions": 2}, {"hot_rows": 3}, {"balance": "popularity"})):
        folder = mpi_tmp_path / str(number)
        found, said = whole_answer(comm, folder, **asked)
        whole = not asked and comm.size > 1
        assert found == bits
        assert comm.rank or (goes(folder) == "as-dense", any("go rows (α = 1: " in one for one in said)) == (whole,) * 2
    on = {"all": comm, "one": MPI.COMM_SELF}
    for first, then in (("all", "one"), ("one", "all")):
        folder = mpi_tmp_path / first
        for who, steps, resume in ((first, 2, None), (then, 4, folder)):
            if who == "all" or comm.rank == 0:
                found, _ = whole_answer(on[who], folder, resume, steps)
            comm.Barrier()
        assert comm.bcast(found) == bits


@pytest.mark.mpi
def test_a_model_that_fails_where_hybrid_looks_is_named_by_the_first_step(comm):
    """Rank 0 alone asks it for the plan, and all ranks in the step: these say it."""
    trainer = Trainer.open(NO_ROWS, toy_data(), make_options("toy", "sgd"), comm)
    assert trainer.plan.strategies["table"].name == "server"
    assert refusal(comm, trainer.train_step).startswith("RuntimeError: no rows today")


@pytest.mark.mpi
def test_a_model_that_fails_while_auto_looks_stops_all_ranks(comm):
    options = make_options("toy", "sgd", architecture="auto")
    assert "no rows today" in refusal(comm, lambda: Trainer.open(NO_ROWS, toy_data(), options, on_machines(comm)))


@pytest.mark.mpi
def test_alpha_is_measured_and_the_network_kept(comm, tmp_path):
    """metrics.jsonl has α of each step, result.json their mean; the network that was measured is measured once."""
    path, said = comm.bcast(str(tmp_path / "run")), []
    model, _, _ = WORKS["lm"]
    result = train(model(), lm_data(), options=make_options("lm", "sgd", architecture="auto"), comm=on_machines(comm),
                   output=path, announce=said.append)
    comm.Barrier()
    records = read_metrics(path)
    assert {name for record in records for name in record["alpha"]} == {"embedding", "softmax_weight", "softmax_bias"}
    for name, alpha in result.alpha.items():
        assert 0 < alpha <= 1 and alpha == pytest.approx(sum(r["alpha"][name] for r in records) / len(records))
    saved = json.load(open(f"{path}/result.json"))
    assert saved["alpha"] == result.alpha and saved["architecture"] == "auto"
    assert json.load(open(f"{path}/network.json"))["machines"] == [list(m) for m in in_blocks(comm.size, 2)]
    assert comm.rank or any("plan auto" in one for one in said)
    again = train(model(), lm_data(), options=make_options("lm", "sgd", plan=json.load(open(f"{path}/plan.json"))),
                  comm=on_machines(comm))
    assert (again.parameters_sha256, again.alpha) == (result.parameters_sha256, result.alpha)


@pytest.mark.mpi
@pytest.mark.parametrize("hot", [0, 30, "auto"])
@pytest.mark.thorough("30")
def test_partitions_of_the_rows_that_are_not_hot_go_by_their_popularity(comm, hot):
    trainer = make_trainer("lm", "sgd", on_machines(comm), partitions=16, scheme="interleaved", balance="popularity",
                           hot_rows=hot)
    plan, model, sample = trainer.plan, trainer.model, take_sample(trainer.model, trainer.data, trainer.options.seed)
    pulls = sample.pulls_per_step(plan.machines)
    assert hot == "auto" or {getattr(s, "hot", 0) for s in plan.strategies.values() if s.sparse} == {hot}
    assert by_popularity(model.variables, plan.strategies, pulls, comm.size) == plan.strategies


@pytest.mark.mpi
def test_the_network_of_another_run_is_left_alone(comm, tmp_path):
    model, data, _ = WORKS["toy"]
    path = comm.bcast(tmp_path) / "run"
    train(model(), data(), options=make_options("toy", "sgd", steps=1), comm=comm, output=path)
    for output, words in ((path, "already holds a run: continue it with --resume"),
                          ("/proc/none/run", "cannot write the network to /proc/none")):
        assert words in refusal(comm, lambda: train(model(), data(), comm=comm, output=output,
                                                    options=make_options("toy", "sgd", architecture="auto")))
    assert not (path / "network.json").exists()
    comm.Barrier()
