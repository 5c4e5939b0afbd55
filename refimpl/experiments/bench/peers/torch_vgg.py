"""The VGG network as a PyTorch programmer would write it: the peer that our training step is raced against.

Eager mode, images (n, channels, height, width). The layers of ``models.vgg.Vgg``.
"""

import torch
from torch import nn
from torch.nn import functional

from models.vgg import Vgg


class TorchVgg(nn.Module):
    """``models.vgg.Vgg`` in PyTorch, with initial values of its own."""

    def __init__(self, model: Vgg):
        super().__init__()
        layers: list[nn.Module] = []
        for stage in model.stages:
            for layer in stage:
                layers += [nn.Conv2d(layer.inputs, layer.outputs, 3, padding=1), nn.ReLU(inplace=True)]
            layers.append(nn.MaxPool2d(2))
        self.features, layers = nn.Sequential(*layers), []
        for layer in model.connected:
            layers.append(nn.Linear(layer.inputs, layer.outputs))
            if not layer.last:
                layers += [nn.ReLU(inplace=True), nn.Dropout(1 - layer.keep)]
        self.connected = nn.Sequential(*layers)

    def forward(self, x):
        """Return logits: (n, classes)."""
        return self.connected(self.features(x).flatten(1))


class Twin:
    """The network as benchmarks train it, see ``peers.torch_twin``: momentum 0.9, mean cross entropy.

    It has its own initial values.  on: where it computes.
    """

    def __init__(self, model: Vgg, values: dict, options, on: str = "cpu"):
        self.model, self.device = TorchVgg(model).to(on), on
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
