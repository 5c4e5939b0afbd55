"""Whole training steps raced against PyTorch's DistributedDataParallel: ``run`` starts the ranks."""

PEER = "torch DDP (gloo)"
