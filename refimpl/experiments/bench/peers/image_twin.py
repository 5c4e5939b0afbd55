"""How benchmarks train a PyTorch network for images: as its programmer would, in eager mode."""

import torch
from torch.nn import functional


class ImageTwin:
    """A network for images as benchmarks train it, see ``peers.torch_twin``: momentum 0.9, mean cross entropy.

    network: makes the nn.Module of a model; it has its own initial values.  on: where it computes.
    """

    def __init__(self, network, model, values: dict, options, on: str = "cpu"):
        self.model, self.device = network(model).to(on), on
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=options.learning_rate, momentum=0.9)

    def step(self, batch, starts_epoch: bool) -> float:
        """Do one training step on (n, height, width, channels) uint8 and (n,) NumPy arrays; return the loss."""
        images, targets = (torch.from_numpy(array).to(self.device) for array in (batch.inputs, batch.targets))
        x = images.permute(0, 3, 1, 2).float() / 127.5 - 1
        loss = functional.cross_entropy(self.model(x), targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
