"""Benchmarks on one GPU, and the report."""
