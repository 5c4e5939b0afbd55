"""A model is its folder and its line in the registry: nothing else names it, and a third one is found everywhere."""

import ast
import json
import re
from pathlib import Path

import pytest

from models.data import Corpus, Images
from models.data.pairs.words import Pairs
from models.recipe import Recipe, build, recipe_of
from models.registry import MODELS, entries, entry_of, workloads_for
from refimpl.cli import main
from refimpl.cli.compare import _print_table
from refimpl.cli.told.said import READ_IN_PLACE
from refimpl.experiments.bench import step

ROOT = Path(__file__).parents[2]
ABOUT_ONE = {  # files that are about one model, and are found by its name
    "models/registry.py", "refimpl/conformance/adapters/jax_models.py", "refimpl/conformance/adapters/torch_models.py",
    "refimpl/experiments/bench/peers/torch_cnn.py", "refimpl/experiments/bench/peers/torch_lm.py",
    "refimpl/experiments/bench/peers/torch_mesh.py", "refimpl/experiments/bench/peers/torch_vgg.py",
    "refimpl/plain/training/checkpoint.py", "refimpl/plain/training/large_batches.py",
    "refimpl/plain/without_barriers/scripted_clock.py",
    "refimpl/experiments/bench/training/modules.py", "refimpl/experiments/bench/training/works.py",
    "refimpl/experiments/touched.py"}  # how many words a text brings, by the model of the lessons
OF_MODELS = *(f"models/{model}/" for model in MODELS), "refimpl/experiments/mesh/", "refimpl/experiments/trees/", \
    "refimpl/experiments/compression/"
"""Folders that are about models: of networks with convolutions and layers that can be cut, of dense and sparse ones."""
NAMED = re.compile(rf"(?<![a-z0-9])({'|'.join(MODELS)})(?![a-z0-9]|-benchmark)|LanguageModel|ConvNet|Vgg", re.IGNORECASE)


def code_of(path):
    """Return a file's code without its comments and docstrings."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            said = [n for n in node.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
            node.body = said or [ast.Pass()]
    return ast.unparse(tree)


def test_models_are_named_in_their_folders_and_the_registry_alone():
    naming = set()
    for path in (file for room in ("kernels", "models", "refimpl") for file in (ROOT / room).rglob("*.py")):
        if (NAMED.search(path.read_text()) and not path.is_relative_to(ROOT / "models" / path.parent.name)
                and NAMED.search(code_of(path))):  # last: it parses the file
            naming.add(path.relative_to(ROOT).as_posix())
    assert {name for name in naming if not name.startswith(OF_MODELS)} == ABOUT_ONE


def test_every_entry_is_whole():
    for name, entry in entries().items():
        assert entry.content in (Corpus, Images, Pairs) and {"small", "tiny"} <= set(entry.presets)
        assert {"data", "microbatch_size", "optimizer", "learning_rate"} <= set(entry.defaults)
        assert set(entry.optimizer) <= {"optimizer", "learning_rate", "clip_norm"}
        for workload in entry.workloads.values():
            assert workload.model == name and workload.make_model().variables
    assert [w.model for w in workloads_for("throughput")] == ["lm", "cnn", "nmt"]
    with pytest.raises(ValueError, match="no model 'gan'; there are lm, cnn, nmt, vgg, and your own: package.mod"):
        entry_of("gan")


def test_defaults_give_way_to_what_is_chosen():
    assert recipe_of("lm", {"optimizer": "adam"})[1]["learning_rate"] == 2e-3
    recipe, options = recipe_of("cnn", {"preset": "tiny", "steps": 3})
    assert recipe == Recipe("cnn", "digits", "tiny", microbatch_size=16)
    assert options == {"optimizer": "momentum", "learning_rate": 0.1, "rate": "cosine", "weight_decay": 5e-4,
                       "steps": 3}


@pytest.mark.parametrize("preset, sizes, augment, flip", [
    ("tiny", {}, False, False), ("tiny", {"augment": True, "flip": True}, True, True)])
def test_data_suggest_sizes_that_may_be_overridden(preset, sizes, augment, flip):
    model, data, heldout = build(Recipe("cnn", "digits", preset, sizes), 0)
    assert (model.augment, model.flip, model.image_shape, model.classes) == (augment, flip, (8, 8, 1), 10)
    assert data.shuffle and not heldout.shuffle and heldout.size == 64


def test_a_small_vocabulary_has_no_more_candidates_than_words():
    model, _, _ = build(Recipe("lm", "synthetic:9", "tiny"), 0)
    assert (model.vocabulary, model.samples) == (9, 9)
    with pytest.raises(ValueError, match="lm has no size vocabulary"):
        build(Recipe("lm", "synthetic:9", "tiny", {"vocabulary": 8}), 0)


TOY = '''
import numpy as np
from kernels import aggregate_rows
from models import Variable
from models.data import Corpus
from models.data.text.windows import SyntheticText
from models.registry import ModelEntry
from models.workload import Workload


class Toy:
    """Each word has a number, which should be 1."""

    def __init__(self, vocabulary, width, dtype="float32"):
        self.variables = [Variable("words", (vocabulary, width), sparse=True, dtype=dtype), Variable("bias", (width,))]

    def rows_needed(self, batch):
        return {"words": np.unique(batch.inputs)}

    def loss_and_gradients(self, dense, rows, batch):
        ids = batch.inputs.ravel()
        error = rows["words"][np.searchsorted(np.unique(ids), ids)] + dense["bias"] - 1
        slope = (2 * error / batch.normaliser).astype(np.float32)
        return float((error**2).sum()) / batch.normaliser, {"words": aggregate_rows(ids, slope), "bias": slope.sum(0)}

    def evaluate(self, dense, tables, batch):
        error = tables["words"][batch.inputs.ravel()] + dense["bias"] - 1
        return {"loss": float((error**2).sum()), "count": batch.inputs.size}


ENTRY = ModelEntry(model=Toy, content=Corpus, presets={"small": {"width": 2}}, unit="tokens", quality="perplexity",
                   defaults={"data": "synthetic:60", "optimizer": "sgd", "learning_rate": 0.5},
                   synthetic=lambda sizes, **shape: SyntheticText(sizes["vocabulary"], **shape),
                   workloads={"step": Workload("toy", "toy", {"vocabulary": 60, "width": 2},
                                              {"streams": 2, "window": 3})})
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A third model, its folder and its line."""
    (tmp_path / "toy_model").mkdir()
    (tmp_path / "toy_model" / "__init__.py").write_text("")
    (tmp_path / "toy_model" / "entry.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(MODELS, "toy", "toy_model")
    return tmp_path


def test_a_third_model_is_trained_compared_planned_and_raced(toy, capsys):
    arguments = ["--steps", "4", "--microbatch-size", "2", "--window", "5", "--heldout", "50"]
    assert main(["train", "toy", *arguments, "--output", str(toy / "run")]) == 0
    said = capsys.readouterr().out
    assert "toy (small) on synthetic:60" in said and "tokens/s" in said and "perplexity" in said
    assert READ_IN_PLACE not in said  # one rank sends nothing
    result = json.loads((toy / "run" / "result.json").read_text())
    _print_table("toy", [result])
    said = capsys.readouterr().out
    assert "toy on 1 rank, 4 steps" in said and "tokens/s" in said and "held-out perplexity" in said
    assert READ_IN_PLACE not in said
    assert main(["plan", "toy", "--ranks", "4", "--machines", "2", "--rate", "1gbit", "--json"]) == 0
    assert [v["variable"] for v in json.loads(capsys.readouterr().out)["variables"]] == ["words", "bias"]
    rows = step.race_step("toy-step", workloads_for("step")[-1], step.import_torch(), seconds=1e-3, rounds=1)
    assert [row.name for row in rows] == ["refimpl"]  # it has no twin
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "toy synthetic:60" in re.sub(r"\s+", " ", capsys.readouterr().out)
