"""Layers cut over groups of ranks: a step in rounds, and the messages between the members of a group."""
