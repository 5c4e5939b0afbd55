"""Attention NMT: translation, the model of Parallax whose rows are touched most."""

from models.nmt.model import PRESETS, TranslationModel

__all__ = ["PRESETS", "TranslationModel"]
