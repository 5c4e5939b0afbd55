"""The paper's experiment on an emulated cluster: throughput, sparsity degree, partitions, convergence; one command."""

PARTS = ("throughput", "sparsity", "partitions", "convergence", "replay-check", "paper-size")
"""Each is a module of this package, of its name with _ for -, and has study(context)."""
