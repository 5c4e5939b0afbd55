"""Races: us beside our peers, in one run, on the same data (``timing``: one rank; ``together``: many)."""
