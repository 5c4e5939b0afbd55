"""Benchmarks of training steps, of our models and of PyTorch's modules, against DistributedDataParallel.

``run`` (our models) and ``modules`` (PyTorch's) start the ranks.
"""

HYBRID, PEER = "refimpl hybrid", "torch DDP (gloo)"
MACHINE, CLUSTER = {"ranks": 4}, {"ranks": 1, "machines": 8}
"""The two places of the benchmarks."""
