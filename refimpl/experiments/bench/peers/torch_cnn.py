"""The residual network as a PyTorch programmer would write it, for comparison with our training step.

Eager mode, nn.Conv2d and nn.BatchNorm2d, images (n, channels, height, width). The layers of ``models.cnn.ConvNet``.
"""

from functools import partial

from torch import nn
from torch.nn import functional

from models.cnn import ConvNet
from refimpl.experiments.bench.peers.torch_replica import work_for_images


class TorchBlock(nn.Module):
    """The basic residual block (He et al. 2016), with a projection if the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        """Return (n, outputs, height / stride, width / stride) of (n, inputs, height, width)."""
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class TorchConvNet(nn.Module):
    """``models.cnn.ConvNet`` in PyTorch, with initial values of its own."""

    def __init__(self, model: ConvNet):
        super().__init__()
        channels = model.blocks[0][1]
        self.stem = nn.Conv2d(model.image_shape[2], channels, 3, padding=1, bias=False)
        self.stem_norm, blocks = nn.BatchNorm2d(channels), []
        for _, outputs, stride in model.blocks:
            blocks.append(TorchBlock(channels, outputs, stride))
            channels = outputs
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(channels, model.classes)

    def forward(self, x):
        """Return logits: (n, classes)."""
        y = self.blocks(functional.relu(self.stem_norm(self.stem(x))))
        return self.head(y.mean(dim=(2, 3)))


work = partial(work_for_images, TorchConvNet)
"""How PyTorch trains a workload of ours."""
