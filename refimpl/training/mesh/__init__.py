"""Layers cut over groups of ranks: a step in rounds, and what the members of a group send each other in it."""
