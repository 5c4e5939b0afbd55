"""Fully connected layers cut over groups of ranks."""
