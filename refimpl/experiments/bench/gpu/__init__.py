"""Benchmarks on one GPU, lower bounds of their costs, and the report."""
