"""Attention NMT: translation. Among the models of Parallax its batches touch the largest part of the rows."""

from models.nmt.model import PRESETS, TranslationModel

__all__ = ["PRESETS", "TranslationModel"]
