"""The paper's experiments on an emulated cluster, as one command."""

PARTS = ("throughput", "sparsity", "partitions", "convergence", "replay-check", "paper-size")
"""Modules of this package (with _ for -), each with ``study(context)``."""
