"""LSTM language model with sampled softmax, the model on which the authors measured Parallax."""

from models.lm.model import PRESETS, LanguageModel

__all__ = ["PRESETS", "LanguageModel"]
