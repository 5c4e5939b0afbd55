"""Experiments: the emulated cluster, benchmarks, comparisons, and the papers' experiments."""
