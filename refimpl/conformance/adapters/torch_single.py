"""Plain single-process PyTorch: backward passes, torch.optim, accumulation, checkpoints; as an adapter of one rank.

    python -m refimpl conformance run --target refimpl.conformance.adapters.torch_single --ranks 1

Whole models are in ``torch_traces``.
"""

import torch

from refimpl.conformance.adapters import functions_of
from refimpl.conformance.adapters.torch_given import tensors
from refimpl.conformance.adapters.torch_training import TorchTraining

LAUNCHER = "processes"


class TorchSingle(TorchTraining):
    """The protocol's functions in one process: what is aggregated is one rank's."""

    def world(self):
        """Return (rank, size)."""
        return 0, 1

    def describe(self) -> dict:
        """One process: nothing is averaged but the micro-steps; only dense gradients can be clipped."""
        return {**self.manifest, "name": f"PyTorch {torch.__version__}"}

    def reduce_loss(self, losses, gradients):
        """Return the mean loss and its gradient by a weight that starts from 0."""
        weight = torch.zeros(gradients.shape[1], dtype=torch.float64, requires_grad=True)
        loss = (tensors(gradients) @ weight + tensors(losses)).mean()
        loss.backward()
        return loss.detach().numpy(), weight.grad.numpy()


__getattr__ = functions_of(TorchSingle)
