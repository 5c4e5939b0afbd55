"""The VGG network as a PyTorch programmer would write it, for comparison with our training step.

Eager mode, images (n, channels, height, width). The layers of ``models.vgg.Vgg``.
"""

from functools import partial

from torch import nn

from models.vgg import Vgg
from refimpl.experiments.bench.peers.torch_replica import work_for_images


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


work = partial(work_for_images, TorchVgg)
"""How PyTorch trains a workload of ours."""
