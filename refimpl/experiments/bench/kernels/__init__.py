"""Benchmarks of array functions against NumPy and PyTorch, one thread each."""
