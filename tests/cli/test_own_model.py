"""A user's own model and data from the command line: the same numbers as from Python, resumed, planned, or refused."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from models.own import DEFAULTS
from refimpl.cli import main
from refimpl.training.options import Options
from refimpl.transport.launch import launch

OWN_MODEL = Path(__file__).parents[2] / "docs" / "own-model.md"
OWN = ["--model", "ratings:Ratings", "--data", "ratings:draw"]
SHORT = ["--microbatch-size", "16", "--steps", "6"]
MORE = '''
class Sized(Ratings):
    def __init__(self, hidden, depth=1):
        assert hidden == 3

class Words(Ratings):
    """Takes what a text gives, and what is set; trains on nothing but its bias."""
    def __init__(self, vocabulary, hidden=2, dtype="float64"):
        self.variables = [Variable("words", (vocabulary, hidden), sparse=True, dtype=dtype)]
    def rows_needed(self, batch):
        return {"words": np.unique(batch.inputs)}
    def loss_and_gradients(self, dense, rows, batch):
        ids = batch.inputs.ravel()
        return 0.0, {"words": aggregate_rows(ids, np.ones((ids.size, 3), rows["words"].dtype))}

class Pixels(Ratings):
    def __init__(self, image_shape, classes):
        self.variables = [Variable("bias", (classes,))]
        assert image_shape == (8, 8, 1)
    def rows_needed(self, batch):
        return {}
    def loss_and_gradients(self, dense, rows, batch):
        return 1.0 / batch.normaliser, {"bias": dense["bias"] * 0 + len(batch.inputs) / batch.normaliser}
    def evaluate(self, dense, tables, batch):
        return {"loss": 0.0, "count": len(batch.inputs), "correct": 1}

class Half:
    variables = []

class Wrong(Ratings):
    variables = ["users"]

instance = Ratings()

def seeded(microbatches, size, seed):
    assert seed == 5
    return draw(microbatches, size), draw(microbatches, size)

def nothing(microbatches, size):
    return [1, 2, 3]

def rigid(microbatches):
    return draw(microbatches, 4)

def deaf(microbatches, size):
    return draw(3, size)
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder in which ``ratings.py`` lies, with the model of docs/own-model.md and more; commands run in it."""
    (program,) = re.findall(r"```python\n(.*?)```", OWN_MODEL.read_text(), re.DOTALL)
    (tmp_path / "ratings.py").write_text(program + MORE)
    (tmp_path / "lacking.py").write_text("import no_such_library\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as python -m has it
    return tmp_path


def test_it_trains_on_1_and_2_ranks_and_a_checkpoint_knows_both_names(folder, capsys):
    assert main(["train", *OWN, *SHORT, "--output", "alone"]) == 0
    said = capsys.readouterr().out
    assert "ratings:Ratings on ratings:draw: hybrid, 1 rank, " in said and "examples/s" in said
    digest = json.loads((folder / "alone" / "result.json").read_text())["parameters_sha256"]
    config = json.loads((folder / "alone" / "config.json").read_text())
    assert (config["describe"]["model"], config["describe"]["data"]) == ("ratings:Ratings", "ratings:draw")
    options = Options(steps=6).to_json()
    assert config["options"] == options, "the defaults are those of Python"
    assert {name: options[name] for name in ("optimizer", "learning_rate")}.items() <= DEFAULTS.items()
    job = launch(2, ["-m", "refimpl", "train", *OWN, *SHORT, "--steps", "4", "--output", "half"], 120, capture=True)
    assert job.returncode == 0, job.stderr
    for who in ([], ["--model", "ratings:Ratings"]):
        assert main(["train", "--resume", "half", *who, "--steps", "6", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["parameters_sha256"] == digest
    assert main(["train", "--resume", "half", "--model", "ratings:Sized"]) == 1
    assert "holds a checkpoint of ratings:Ratings, not of ratings:Sized" in capsys.readouterr().err


def test_sizes_seed_and_heldout_data_reach_it(folder, capsys):
    where = ["--no-output", "--json", "--steps", "2"]
    assert main(["train", "--model", "ratings:Sized", "--data", "ratings:draw", "--set", "hidden=3", *where]) == 0
    assert main(["train", "--model", "ratings:Words", "--data", "synthetic:40", "--set", "hidden=3",
                 "--dtype", "float32", "--microbatch-size", "2", "--window", "3", *where]) == 0
    assert main(["train", "--model", "ratings:Pixels", "--data", "digits", "--heldout", "100", *where]) == 0
    _, words, pixels = map(json.loads, capsys.readouterr().out.splitlines())
    assert "perplexity" not in words and pixels["accuracy"] == pytest.approx(1 / 50)  # 100 in batches of 64: 2 correct
    assert main(["train", "--model", "ratings:Ratings", "--data", "ratings:seeded", "--seed", "5", *where]) == 1
    assert "there are held-out data, but Ratings has no evaluate: give it one" in capsys.readouterr().err


@pytest.mark.thorough
def test_it_is_planned_and_compared(folder, capsys):
    assert main(["plan", *OWN, "--ranks", "4", "--machines", "2", "--rate", "100mbit", "--output", "plan.json"]) == 0
    said = capsys.readouterr().out
    assert "ratings:Ratings: plan auto" in said and "train --model ratings:Ratings --microbatches 8" in said
    command = [sys.executable, "-m", "refimpl", "compare", *OWN, *SHORT, "--ranks", "2"]
    job = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert job.returncode == 0 and "One answer" in job.stdout and "examples/s" in job.stdout, job.stderr
    assert (folder / "runs" / "compare-ratings.Ratings" / "hybrid" / "result.json").exists()


@pytest.mark.parametrize("arguments, words", [
    (["--model", "rating:Ratings", *OWN[2:]], "--model rating:Ratings: there is no module rating: run from the folder "
     "where rating.py lies, or name that folder in PYTHONPATH"),
    (["--model", "ratings.py:Ratings", *OWN[2:]], "ratings.py is a file, not a module: run from the folder where it "
     "lies, and say ratings:Ratings"),
    (["--model", "ratings:Rating", *OWN[2:]], "has no Rating; it has Ratings, draw, Sized"),
    (["--model", "ratings:", *OWN[2:]], "--model ratings:: it should read package.module:NAME"),
    (["--model", "ratings", *OWN[2:]], "--model ratings: it should read package.module:Class"),
    (["--model", "lm", *OWN[2:]], "for refimpl's lm leave --model out"),
    (["--model", "ratings:instance", *OWN[2:]], "is Ratings, not a class"),
    (["--model", "ratings:Half", *OWN[2:]], "ratings:Half is no model: it has no rows_needed, loss_and_gradients"),
    (["--model", "ratings:Wrong", *OWN[2:]], "they must be a list of Variable"),
    ([*OWN, "--set", "hidden=3"], "ratings:Ratings has no size hidden; it has none"),
    ([*OWN, "--dtype", "float64"], "ratings:Ratings has no size dtype"),
    (["--model", "ratings:Sized", *OWN[2:]], "ratings:Sized needs a size hidden: give --set hidden=N"),
    ([*OWN, "--preset", "tiny"], "ratings:Ratings has no presets: leave --preset out"),
    (OWN[:2], "ratings:Ratings needs data: --data package.module:function, or one of shakespeare, "),
    ([*OWN[:2], "--data", "nonsense"], "no data called 'nonsense'; there are shakespeare, "),
    ([*OWN[:2], "--data", "ratings:nothing"], "returned list, which lacks microbatches, "),
    ([*OWN[:2], "--data", "ratings:rigid"], "cannot be called with (microbatches=8, size=8): "),
    ([*OWN[:2], "--data", "ratings:deaf"], "returned 3 microbatches a step; 8 were asked for"),
    ([*OWN[:2], "--data", "ratings:np"], "is module, not a function"),
    (["lm", *OWN], "--model ratings:Ratings and lm are two models, and a training has one: leave one out"),
])
def test_refusals_name_culprit_and_remedy(folder, capsys, arguments, words):
    assert main(["train", *arguments, "--no-output"]) == 1
    assert words in capsys.readouterr().err
    assert main(["plan", *arguments]) == 1
    assert words in capsys.readouterr().err


def test_what_it_lacks_itself_is_told_as_python_tells_it(folder, monkeypatch, capsys):
    monkeypatch.setattr("refimpl.cli.end_job", lambda status: status)
    assert main(["train", "--model", "lacking:Model", *OWN[2:]]) == 1
    said = capsys.readouterr().err
    assert "No module named 'no_such_library'" in said and "lacking.py" in said
