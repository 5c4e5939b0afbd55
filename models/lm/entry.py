"""The language model's entry in the registry."""

from models.data import Corpus
from models.data.text.windows import SyntheticText
from models.lm.golden import GOLDEN
from models.lm.model import PRESETS, LanguageModel
from models.lm.workloads import BOUNDS, BY_LENGTH, PAPER, WORKLOADS
from models.registry import ModelEntry


def fit(sizes: dict) -> dict:
    """Return the sizes with at most as many candidates as words. The model refuses an invalid number of candidates."""
    samples = sizes["samples"]
    return {**sizes, "samples": min(samples, sizes["vocabulary"])} if isinstance(samples, int) else sizes


ENTRY = ModelEntry(
    model=LanguageModel, content=Corpus, presets=PRESETS, unit="words", quality="perplexity", fit=fit,
    defaults={"data": "shakespeare", "microbatch_size": 8, "optimizer": "adagrad", "learning_rate": 0.2,
              "clip_norm": 10.0},  # the authors' choice (docs/paper.md, Models)
    synthetic=lambda sizes, **shape: SyntheticText(sizes["vocabulary"], **shape),
    workloads=WORKLOADS, by_length=BY_LENGTH, bounds=BOUNDS, reach={"lm-step": 1.0, "gpu-lm-step": 1.0}, paper=PAPER,
    golden=GOLDEN)
