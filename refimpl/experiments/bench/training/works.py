"""The works of ``bench torch``, for both sides: a module, its loss, its data and its optimizer.

lm:          the peer's language model of ``bench training``, with sparse tables
recommender: that of docs/examples/torch_recommender.py, of four tables
cnn:         the residual network of ``bench step``, all dense
"""

import importlib.util
from functools import partial
from pathlib import Path

from models.lm import PRESETS
from models.registry import workloads_for
from models.workload import Workload
from refimpl.experiments.bench.peers import peer_work
from refimpl.experiments.bench.peers.torch_replica import Work, adagrad, seeded
from refimpl.experiments.bench.training.foreign import MODULES, foreign_work
from refimpl.torch import TorchData

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "torch_recommender.py"
SMALL = {"lm": Workload("small", "lm", {**PRESETS["tiny"], "vocabulary": 500}, dict(streams=2, window=5)),
         "cnn": Workload("small", "cnn", dict(width=4, blocks=(1,)), dict(images=2, image_size=8))}
CNN = Workload("torch", "cnn", dict(width=32, blocks=(1, 1, 1)), dict(images=16, image_size=32))


def work_of(name: str, small: bool = False) -> Work:
    """Return a work by its name. Local. small: only to see that it runs."""
    if name == "recommender":
        return recommender(small)
    if name in MODULES:
        return foreign_work(name, small)
    return peer_work(SMALL[name] if small else CNN if name == "cnn" else workloads_for("training")[0])


def recommender(small: bool) -> Work:
    """Return the work of the example's recommender, with the example's rate. Local.

    Raises ValueError if the file of the example is missing.
    """
    if not EXAMPLE.exists():
        raise ValueError(f"{EXAMPLE} is missing, and bench torch trains its recommender: run it in a clone of the "
                         "repository")
    spec = importlib.util.spec_from_file_location("torch_recommender", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    data, size = (example.Clicks(1024), 16) if small else (example.Clicks(), 512)
    return Work(
        f"{size} examples, visitors {example.VISITORS}, items {example.ITEMS}, width 32", "examples",
        seeded(example.Recommender), lambda module, batch: module(batch.inputs, batch.targets),
        lambda microbatches: TorchData(data, microbatches, size, collate=example.itself),
        dict(optimizer="adagrad", learning_rate=0.05), partial(adagrad, 0.05), ("countries",))
