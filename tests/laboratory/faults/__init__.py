"""Hostile trials, counted: signals at random moments, damaged files, models that lie; each ends in words or rightly."""

KINDS = ("signals", "files", "lies")
"""Each is a module with draw(rng) -> what a trial of the kind does, as plain data."""
