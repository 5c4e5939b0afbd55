"""Benchmarks: refimpl and other software in turns, in one run, on the same data. ``timing`` takes the times."""
