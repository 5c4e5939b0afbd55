"""The translation model's entry in the registry."""

from models.data.pairs.synthetic import SyntheticPairs
from models.data.pairs.words import Pairs
from models.nmt.beam import translate
from models.nmt.golden import GOLDEN
from models.nmt.model import PRESETS, TranslationModel
from models.nmt.workloads import BOUNDS, BY_LENGTH, PAPER, WORKLOADS
from models.registry import ModelEntry

ENTRY = ModelEntry(
    model=TranslationModel, content=Pairs, presets=PRESETS, unit="words", quality="perplexity",
    defaults={"data": "numbers", "microbatch_size": 16, "optimizer": "adam", "learning_rate": 4e-3, "rate": "cosine",
              "clip_norm": 5.0},
    synthetic=lambda sizes, **shape: SyntheticPairs(sizes["source_vocabulary"], sizes["target_vocabulary"], **shape),
    workloads=WORKLOADS, by_length=BY_LENGTH, bounds=BOUNDS, paper=PAPER, golden=GOLDEN, translate=translate)
