"""Sentence pairs: what a translation model trains on, by source, and cut into microbatches of like lengths."""
