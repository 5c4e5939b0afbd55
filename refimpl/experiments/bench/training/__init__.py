"""Whole training steps raced against PyTorch's DistributedDataParallel, of our models and of modules of PyTorch.

``run`` (our models) and ``modules`` (PyTorch's) start the ranks.
"""

HYBRID, PEER = "refimpl hybrid", "torch DDP (gloo)"
MACHINE, CLUSTER = {"ranks": 4}, {"ranks": 1, "machines": 8}
"""Where they are raced."""
