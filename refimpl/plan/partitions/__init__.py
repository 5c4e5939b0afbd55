"""Partitions of tables: who owns which and how even that is, and the search for how many there should be."""
