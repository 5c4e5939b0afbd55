"""LSTM language model with sampled softmax: the model on which Parallax was measured."""

from models.lm.model import LanguageModel
from models.lm.presets import PRESETS

__all__ = ["PRESETS", "LanguageModel"]
