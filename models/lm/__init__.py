"""LSTM language model with sampled softmax: the model on which Parallax was measured."""

from models.lm.model import PRESETS, LanguageModel

__all__ = ["PRESETS", "LanguageModel"]
