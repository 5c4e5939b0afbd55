"""Sentence pairs, on which a translation model trains: their sources, and microbatches of similar lengths."""
