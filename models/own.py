"""A user's own model and data, by their import names: "package.module:Class"."""

import importlib
import inspect
from typing import Any

from models.data import Data, is_source, load, source_names
from models.variable import Variable

MODEL = ("variables", "rows_needed", "loss_and_gradients")
DATA = ("microbatches", "steps_per_epoch", "fingerprint", "examples", "microbatch", "starts_epoch")
DEFAULTS = {"preset": "", "optimizer": "adagrad", "learning_rate": 0.2}
"""The defaults of ``refimpl.train``, so that the command gives the same numbers."""


def build_own(make, recipe, seed: int):
    """Return (model, data, held-out data or None) of a recipe whose model is a user's own class ``make``. Local.

    The class gets the recipe's sizes. If it has parameters of these names, it also gets dtype and the sizes of the data
    (vocabulary; image_shape, classes, ...). Raises ValueError, with the remedy. Errors of the user's code pass through.
    """
    if recipe.preset:
        raise ValueError(f"{recipe.model} has no presets: leave --preset out, and give sizes by --set NAME=N")
    if not is_source(recipe.data) and ":" in recipe.data:
        return _model(make, recipe, {}), *_own_data(recipe, seed)
    if not is_source(recipe.data):
        raise ValueError(f"no data called {recipe.data!r}; there are {source_names()}, and package.module:function")
    content = load(recipe.data)
    model, (data, heldout) = _model(make, recipe, {**content.suggested, **content.sizes}), content.cut(recipe, seed)
    return model, data, heldout if hasattr(model, "evaluate") else None


def find(name: str, option: str) -> Any:
    """Return the object with the name "package.module:attribute". Local. option: the option with this name.

    Raises ValueError if the name has another form, or if the module or the attribute does not exist.
    """
    module, _, attribute = name.partition(":")
    if module.endswith(".py") or "/" in module:
        stem = module.rpartition("/")[2].removesuffix(".py")
        raise ValueError(f"{option} {name}: {module} is a file, not a module: run from the folder where it lies, "
                         f"and say {stem}:{attribute or 'NAME'}")
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        raise ValueError(f"{option} {name}: it should read package.module:NAME")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if not f"{module}.".startswith(f"{problem.name}."):  # the module exists but imports a missing one
            raise
        raise ValueError(f"{option} {name}: there is no module {problem.name}: run from the folder where "
                         f"{problem.name.replace('.', '/')}.py lies, or name that folder in PYTHONPATH") from problem
    if not hasattr(found, attribute):
        theirs = [n for n, value in vars(found).items() if getattr(value, "__module__", None) == found.__name__]
        raise ValueError(f"{option} {name}: {found.__file__} has no {attribute}; it has {', '.join(theirs) or 'none'}")
    return getattr(found, attribute)


def _parameters(function) -> tuple[dict, bool]:
    """Return the names of the keyword parameters, and whether the function has **kwargs."""
    every = inspect.signature(function).parameters.values()
    named = {p.name: p for p in every if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return named, any(p.kind is p.VAR_KEYWORD for p in every)


def _model(make, recipe, given: dict):
    """Return the user's model. Raises ValueError if it lacks something that a model needs."""
    _refuse_module(make if isinstance(make, type) else type(make), recipe.model)
    named, takes_any = _parameters(make)
    sizes = {**{size: value for size, value in given.items() if size in named}, **recipe.sizes}
    if "dtype" in named or recipe.dtype != "float32":
        sizes.setdefault("dtype", recipe.dtype)
    if (unknown := [size for size in sizes if size not in named]) and not takes_any:
        raise ValueError(f"{recipe.model} has no size {', '.join(unknown)}; it has {', '.join(named) or 'none'}")
    if absent := [size for size, p in named.items() if p.default is p.empty and size not in sizes]:
        raise ValueError(f"{recipe.model} needs a size {', '.join(absent)}: give --set {absent[0]}=N")
    model = make(**sizes)
    _refuse_module(type(model), recipe.model)
    if absent := [member for member in MODEL if not hasattr(model, member)]:
        raise ValueError(f"{recipe.model} is no model: it has no {', '.join(absent)}; a model has {', '.join(MODEL)} "
                         "(models/protocol.py)")
    if not isinstance(model.variables, (list, tuple)) or not all(isinstance(v, Variable) for v in model.variables):
        raise ValueError(f"{recipe.model}: its variables are {model.variables!r:.80}; they must be a list of Variable")
    return model


def _refuse_module(kind, name: str):
    """Raise ValueError, with the lines to add, if a class is a torch.nn.Module, which must be wrapped first."""
    bases = getattr(kind, "__mro__", ())
    if any((base.__module__, base.__name__) == ("torch.nn.modules.module", "Module") for base in bases):
        module = name.partition(":")[0]
        raise ValueError(f"{name} gives a torch.nn.Module, which says nothing of its loss. Add to {module}\n"
                         "    from refimpl.torch import TorchModel\n"
                         f"    def model(): return TorchModel({kind.__name__}(...), loss)\n"
                         f"and say --model {module}:model. loss(module, batch) returns the sum of the losses of "
                         "batch's examples (docs/torch.md)")


def _own_data(recipe, seed: int):
    """Return (data, held-out data or None) of the recipe's function. Raises ValueError if they are not."""
    function, name = find(recipe.data, "--data"), recipe.data
    if not callable(function):
        raise ValueError(f"--data {name} is {type(function).__name__}, not a function: name one that returns the data")
    named, takes_any = _parameters(function)
    asked = {"microbatches": recipe.microbatches, "size": recipe.microbatch_size}
    if "seed" in named or takes_any:
        asked["seed"] = seed
    try:
        inspect.signature(function).bind(**asked)
    except TypeError as problem:
        call = ", ".join(f"{parameter}={value}" for parameter, value in asked.items())
        raise ValueError(f"--data {name} cannot be called with ({call}): {problem}; it must take these "
                         "arguments and require no others") from problem
    found = function(**asked)
    data, heldout = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    for one in (data,) if heldout is None else (data, heldout):
        if not isinstance(one, Data):
            absent = ", ".join(member for member in DATA if not hasattr(one, member))
            raise ValueError(f"--data {name} returned {type(one).__name__}, which lacks {absent} of Data; "
                             "return Examples(...), TokenStreams(...), or what has these (models/data/protocol.py), "
                             "alone or with held-out Data")
    if data.microbatches != recipe.microbatches:
        raise ValueError(f"--data {name} returned {data.microbatches} microbatches a step; {recipe.microbatches} were "
                         "asked for: cut the data as its parameter microbatches says")
    return data, heldout
