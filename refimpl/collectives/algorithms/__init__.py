"""Allreduce algorithms, a generator of rounds each."""
