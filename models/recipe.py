"""From names to things: the model, the training data and the held-out data that a recipe describes."""

from dataclasses import asdict, dataclass, field, fields, replace

from models.cnn import PRESETS as CNN_PRESETS, ConvNet
from models.data import Corpus, Examples, Images, TokenStreams, load
from models.lm import PRESETS as LM_PRESETS, LanguageModel

MODELS = ("lm", "cnn")
PRESETS = {"lm": LM_PRESETS, "cnn": CNN_PRESETS}
DEFAULTS = {
    "lm": {"data": "shakespeare", "microbatch_size": 8, "optimizer": "adagrad", "learning_rate": 0.2,
           "clip_norm": 10.0},
    "cnn": {"data": "digits", "microbatch_size": 16, "optimizer": "momentum", "learning_rate": 0.1, "rate": "cosine",
            "weight_decay": 5e-4},
}
"""What a model is trained with if nothing else is asked for: the authors' choice for lm (PAPER.md, Models)."""

AUGMENTATION = {"digits": {"augment": False, "flip": False}, "fashion-mnist": {"augment": True, "flip": True},
                "cifar10": {"augment": True, "flip": True}}
"""Which images may be shifted and mirrored: a mirrored digit is none, and a shifted 8 x 8 one loses too much."""


@dataclass(frozen=True)
class Recipe:
    """What is trained on what. Its JSON lies in config.json and in every checkpoint.

    sizes: overrides of the preset's values.  microbatches: V.  microbatch_size: streams (lm) or images (cnn) in each.
    window: time steps of a window (lm).  heldout: at most so many held-out tokens or images are evaluated.
    """

    model: str
    data: str
    preset: str = "small"
    sizes: dict = field(default_factory=dict)
    dtype: str = "float32"
    microbatches: int = 8
    microbatch_size: int = 8
    window: int = 20
    heldout: int = 20_000

    def to_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> "Recipe":
        """Read what ``to_json`` wrote. Raises ValueError for fields that this version does not know."""
        unknown = set(data) - {f.name for f in fields(cls)}
        if unknown or "model" not in data:
            strange = ", ".join(sorted(unknown)) or "no model"
            raise ValueError(f"this is not a recipe that this version knows: {strange}")
        return cls(**data)


def build(recipe: Recipe, seed: int):
    """Return (model, data, heldout data) of a recipe. Local: every rank builds its own, from the same files.

    Raises ValueError (DataError for data) naming what is wrong and what to do.
    """
    if recipe.model not in MODELS:
        raise ValueError(f"no model {recipe.model!r}; there are {', '.join(MODELS)}")
    presets = PRESETS[recipe.model]
    if recipe.preset not in presets:
        raise ValueError(f"{recipe.model} has no preset {recipe.preset!r}; it has {', '.join(presets)}")
    known = set(presets[recipe.preset]) - {"vocabulary"} | (set() if recipe.model == "lm" else {"augment", "flip"})
    if unknown := set(recipe.sizes) - known:
        raise ValueError(f"{recipe.model} has no size {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}")
    content = load(recipe.data)
    wanted = Corpus if recipe.model == "lm" else Images
    if not isinstance(content, wanted):
        raise ValueError(f"{recipe.model} does not train on {recipe.data!r}, which holds "
                         f"{'images' if wanted is Corpus else 'text'}; try {DEFAULTS[recipe.model]['data']}")
    sizes = {**presets[recipe.preset], **AUGMENTATION.get(content.name.partition(":")[0], {}), **recipe.sizes}
    return _language_model(recipe, content, sizes) if wanted is Corpus else _conv_net(recipe, content, sizes, seed)


def _language_model(recipe, corpus, sizes):
    sizes["vocabulary"] = corpus.vocabulary_size
    sizes["samples"] = min(sizes["samples"], corpus.vocabulary_size)
    cut = (recipe.microbatches, recipe.microbatch_size, recipe.window)
    model = LanguageModel(**sizes, dtype=recipe.dtype)
    return model, TokenStreams(corpus.train, *cut), TokenStreams(corpus.heldout[:recipe.heldout + 1], *cut)


def _conv_net(recipe, images, sizes, seed):
    model = ConvNet(images.train_images.shape[1:], images.classes, **sizes, dtype=recipe.dtype)
    train = Examples(images.train_images, images.train_labels, recipe.microbatches, recipe.microbatch_size, seed)
    heldout = Examples(images.heldout_images[:recipe.heldout], images.heldout_labels[:recipe.heldout],
                       recipe.microbatches, max(recipe.microbatch_size, 64), seed, shuffle=False)
    return model, train, heldout


def with_defaults(model: str, chosen: dict) -> dict:
    """Return the choices, completed by the model's defaults; a chosen optimizer brings no rate but its own. Local."""
    defaults = dict(DEFAULTS[model])
    if chosen.get("optimizer", defaults["optimizer"]) != defaults["optimizer"]:
        defaults["learning_rate"] = {"adam": 2e-3, "adagrad": 0.2, "momentum": 0.1, "sgd": 0.5}[chosen["optimizer"]]
    return {**defaults, **chosen}


def resumed(recipe: dict, chosen: dict) -> Recipe:
    """Return a checkpoint's recipe with what was chosen anew; whether that fits is checked on loading. Local."""
    return replace(Recipe.from_json(recipe), **chosen)
