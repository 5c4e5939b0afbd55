"""Recipes: names and sizes of a model and data, and the function that builds the objects."""

from dataclasses import asdict, dataclass, field, fields, replace

import msgspec

from models.data import is_source, load, source_names
from models.data.growing import GrowingBatches
from models.data.protocol import require_filled
from models.own import build_own
from models.registry import entry_of, is_own
from models.sizes import require_addressable

LEARNING_RATES = {"adam": 2e-3, "adamw": 2e-3, "adagrad": 0.2, "momentum": 0.1, "nesterov": 0.1, "sgd": 0.5,
                  "lars": 5.0, "lamb": 2e-2}
"""Optimizer -> its default learning rate, if it is not the model's default optimizer."""


@dataclass(frozen=True)
class Recipe:
    """A model and the data that it trains on. config.json and every checkpoint contain it as JSON.

    model: of ``models.registry.MODELS``, or "package.module:Class".  data: of ``models.data.SOURCES``, or
    "package.module:function" for a user's own model.  preset, sizes: of the model; sizes override the preset.
    microbatches: V.  microbatch_size: examples (in a text: streams) in each.  window: words of a stream in a step.
    heldout: the most held-out words or images to evaluate.
    grow_batch: (factor, steps): after this number of steps microbatches have factor times as many examples, see
    ``models.data.growing``.
    """

    model: str
    data: str
    preset: str = "small"
    sizes: dict[str, int | float | str | tuple[int, ...]] = field(default_factory=dict)
    dtype: str = "float32"
    microbatches: int = 8
    microbatch_size: int = 8
    window: int = 20
    heldout: int = 20_000
    grow_batch: tuple[int, int] | None = None

    def to_json(self) -> dict:
        """Return the fields as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> "Recipe":
        """Return the recipe of ``to_json``'s result. Raises ValueError for an unknown field or a wrong type."""
        try:
            recipe = msgspec.convert(data, cls)
        except msgspec.ValidationError as problem:
            raise ValueError(f"this is not a recipe that this version knows: {problem}") from problem
        if unknown := set(data) - {f.name for f in fields(cls)}:
            raise ValueError(f"this is not a recipe that this version knows: {', '.join(sorted(unknown))}")
        return recipe


def build(recipe: Recipe, seed: int):
    """Return (model, data, held-out data) of a recipe. Local: every rank builds its own, from the same files.

    Held-out data are None if a user's own model has none or cannot be evaluated.
    Raises ValueError (DataError for data), which says what is wrong and what to do.
    """
    entry = entry_of(recipe.model)
    if recipe.grow_batch is not None and is_own(recipe.model):
        raise ValueError("--grow-batch cuts the data of refimpl's models: for your own give data that grow, "
                         "models.data.growing.GrowingBatches, or leave it out")
    built = build_own(entry.model, recipe, seed) if is_own(recipe.model) else _build_ours(entry, recipe, seed)
    require_addressable(built[0].variables)
    if not is_own(recipe.model) or is_source(recipe.data):
        require_filled(built[1])
    return built


def _build_ours(entry, recipe, seed):
    model, content = model_and_content(entry, recipe)
    data, heldout = content.cut(recipe, seed)
    if recipe.grow_batch is not None:
        data = GrowingBatches(lambda times: content.cut(
            replace(recipe, microbatch_size=times * recipe.microbatch_size), seed)[0], *recipe.grow_batch)
    return model, data, heldout


def model_and_content(entry, recipe: Recipe):
    """Return the model of a recipe and the content of its data, not yet cut. Local. Raises as ``build`` does."""
    if recipe.preset not in entry.presets:
        raise ValueError(f"{recipe.model} has no preset {recipe.preset!r}; it has {', '.join(entry.presets)}")
    preset, content = entry.presets[recipe.preset], load(recipe.data)
    if not isinstance(content, entry.content):
        raise ValueError(f"{recipe.model} does not train on {recipe.data!r}, which holds {content.kind}; "
                         f"try {entry.defaults['data']}")
    known = (set(preset) | set(content.suggested)) - set(content.sizes)
    if unknown := set(recipe.sizes) - known:
        raise ValueError(f"{recipe.model} has no size {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}")
    sizes = entry.fit({**preset, **content.suggested, **recipe.sizes, **content.sizes})
    return entry.model(**sizes, dtype=recipe.dtype), content


def recipe_of(model: str, chosen: dict) -> tuple[Recipe, dict]:
    """Return (the recipe, the trainer's options) of a model: what was chosen, else the model's defaults. Local.

    For another optimizer than the model's default, the default learning rate is that of LEARNING_RATES. Raises
    ValueError for an unknown model, or for a user's own model without data.
    """
    entry = entry_of(model)
    complete = {**entry.defaults, **chosen}
    if "data" not in chosen and complete.get("preset") in entry.preset_data:
        complete["data"] = entry.preset_data[complete["preset"]]
    if "data" not in complete:
        raise ValueError(f"{model} needs data: --data package.module:function, or one of {source_names()}")
    if "learning_rate" not in chosen and complete["optimizer"] != entry.defaults["optimizer"]:
        complete["learning_rate"] = LEARNING_RATES[complete["optimizer"]]
    names = {f.name for f in fields(Recipe)}
    return (Recipe(model, **{name: value for name, value in complete.items() if name in names}),
            {name: value for name, value in complete.items() if name not in names})


def resumed(recipe: dict, chosen: dict) -> Recipe:
    """Return a checkpoint's recipe with newly chosen fields. Loading the checkpoint checks whether they fit. Local."""
    return replace(Recipe.from_json(recipe), **chosen)
