"""The trainings that the golden traces are of: what the models bring (``models.golden``), with trainers' options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from models.golden import SEED, STEPS
from models.registry import MODELS, entries
from refimpl.conformance.traces.format import PRECISIONS, write_trace
from refimpl.conformance.traces.golden import FOLDER, golden, golden_path
from refimpl.conformance.traces.record import record
from refimpl.training.options import Options


@dataclass(frozen=True)
class TraceRecipe:
    """model: dtype -> model.  data: the microbatches.  samples: the same cut of the examples' numbers.

    about: JSON that describes the model to a reader in another language.
    """

    model: Callable[[str], Any]
    data: Any
    samples: Any
    options: Options
    about: dict


RECIPES = {name: TraceRecipe(g.make_model, *g.make_data(), Options(steps=STEPS, seed=SEED, **g.options),
                             {"model": name, "code": MODELS[name].replace(".", "/"), **g.about})
           for name, entry in entries().items() if (g := entry.golden)}


def regenerate(names, folder=FOLDER) -> list[Path]:
    """Record the named trainings in both precisions and write them to a folder; return the files. Local, one rank.

    Raises ValueError for a name that does not exist.
    """
    paths = {(name, precision): golden_path(name, precision) for name in names for precision in PRECISIONS}
    written: list[Path] = []
    for (name, precision), path in paths.items():
        written += write_trace(record(name, RECIPES[name], precision), Path(folder) / path.name)
    golden.cache_clear()
    return written
