"""The project's models by name. To add one, write its folder, with ENTRY in its ``entry.py``, and its line in MODELS.

``train``, ``compare``, ``plan``, ``bench`` and ``experiment`` find all models here.
"""

import importlib
from dataclasses import dataclass, field
from typing import Any, Callable

from models.own import DEFAULTS, find

MODELS = {"lm": "models.lm", "cnn": "models.cnn", "nmt": "models.nmt", "vgg": "models.vgg"}
"""Name -> folder (package), which is imported at its first use."""


@dataclass(frozen=True)
class ModelEntry:
    """The properties of a model.

    model:     its class, model(**sizes, dtype=...); sizes are those of a preset and of the data.
    content:   the type of data that it trains on, ``models.data.Corpus`` or ``Images``; None: any.
    presets:   name -> sizes.
    defaults:  defaults of the fields of ``Recipe`` and of a trainer's options.
    unit:      name of its examples, for example "words".
    quality:   result of its evaluation: "perplexity" or "accuracy"; "": unknown before it is evaluated.
    preset_data: preset -> its data, for presets with other data than the defaults.
    fit:       fit(sizes) -> the sizes that suit the data.
    synthetic: synthetic(sizes, **shape) -> data in microbatches of that shape, e.g. ``SyntheticText``.
    workloads: for benchmarks and the paper's experiment: name -> ``Workload``.
    by_length: workloads in sentences of several lengths, ``ByLength``, if it reads sentences.
    bounds:    small trainings by which devices are compared, ``BoundedTraining``.
    reach:     name of a benchmark's work -> the ratio to its best peer that it should reach.
    paper:     the paper's measurements, ``Paper``.
    golden:    the training of its golden trace, ``Golden``.
    translate: translate(model, values, source words, beam) -> target words, if it translates.
    Its PyTorch twin, if it has one, is ``refimpl.experiments.bench.peers.torch_NAME``.
    """

    model: Callable[..., Any]
    content: type | None
    presets: dict[str, dict]
    defaults: dict
    unit: str
    quality: str
    preset_data: dict[str, str] = field(default_factory=dict)
    fit: Callable[[dict], dict] = dict
    synthetic: Callable[..., Any] | None = None
    workloads: dict = field(default_factory=dict)
    by_length: Any = None
    bounds: tuple = ()
    reach: dict[str, float] = field(default_factory=dict)
    paper: Any = None
    golden: Any = None
    translate: Callable[..., Any] | None = None

    @property
    def optimizer(self) -> dict:
        """The defaults for the optimizer of a benchmark: its kind, a constant rate, clipping."""
        names = ("optimizer", "learning_rate", "clip_norm")
        return {name: self.defaults[name] for name in names if name in self.defaults}


def is_own(model: str) -> bool:
    """Return whether a model is a user's own, "package.module:Class", and not one of MODELS. Local."""
    return ":" in model


def entry_of(model: str) -> ModelEntry:
    """Return the entry of a model: of MODELS, or "package.module:Class". Local.

    Raises ValueError, which says what to do, if the model does not exist.
    """
    if is_own(model):
        own = find(model, "--model")
        if not callable(own):
            raise ValueError(f"--model {model} is {type(own).__name__}, not a class: name the class of the model")
        return ModelEntry(model=own, content=None, presets={}, defaults=DEFAULTS, unit="examples", quality="")
    if model not in MODELS:
        raise ValueError(f"no model {model!r}; there are {', '.join(MODELS)}, and your own: package.module:Class")
    return importlib.import_module(f"{MODELS[model]}.entry").ENTRY


def entries() -> dict[str, ModelEntry]:
    """Return name -> entry of all MODELS. Local."""
    return {model: entry_of(model) for model in MODELS}


def workloads_for(purpose: str) -> list:
    """Return the workloads for a purpose, e.g. "throughput", of all models that have one. Local."""
    return [entry.workloads[purpose] for entry in entries().values() if purpose in entry.workloads]
