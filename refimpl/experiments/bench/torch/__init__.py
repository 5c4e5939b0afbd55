"""Modules of PyTorch trained by ``refimpl.torch``, raced against DistributedDataParallel: ``run`` starts the ranks."""
