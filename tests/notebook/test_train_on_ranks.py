"""A training from a notebook: its result and metrics, the stored result where no cluster is to be had, refusals."""

import pytest

from refimpl.notebook import train_on_ranks, training
from refimpl.notebook.results import STORE
from refimpl.notebook.training import command_line

TINY = {"preset": "tiny", "data": "synthetic:64", "microbatches": 2, "microbatch_size": 2, "window": 3, "steps": 2}


def test_options_as_a_command_line():
    given = {"architecture": "ps", "steps": 3, "trace": True, "overlap": False, "set": {"hidden": 8, "layers": 1},
             "partitions": None}
    assert command_line(given) == ["--architecture", "ps", "--steps", "3", "--trace", "--no-overlap",
                                   "--set", "hidden=8", "--set", "layers=1"]


def test_what_the_training_refuses_is_told():
    with pytest.raises(ValueError, match="ended with status .*: .*error: .*no-such"):
        train_on_ranks("lm", 1, preset="no-such")


@pytest.mark.parametrize("where", [{}, {"ranks": 2, "machines": 2, "rate": "1gbit"}, {"machines": 2}])
def test_ranks_or_machines(where):
    with pytest.raises(ValueError, match="give ranks, or machines and their rate"):
        train_on_ranks("lm", **where)


def test_a_training_on_two_ranks_is_stored_when_notebooks_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def done(machines, each, rate, arguments, *_, **__):
        return training.launch(machines * each, arguments, capture=True)

    monkeypatch.setattr(training, "run_on_cluster", done)
    monkeypatch.setenv(STORE, "1")
    run = train_on_ranks("lm", machines=2, rate="1gbit", stored="kept", architecture="allreduce", **TINY)
    assert run.result["ranks"] == 2 and run.result["architecture"] == "allreduce" and run.directory.exists()
    assert [record["step"] for record in run.metrics] == [1, 2]
    monkeypatch.delenv(STORE)
    again = train_on_ranks("lm", machines=2, rate="1gbit", stored="kept", keep=True)
    assert again.directory is None and (again.result, again.metrics) == (run.result, run.metrics)
    assert again.measured == run.measured and "2 emulated machines of 1 rank, 1gbit" in run.measured
