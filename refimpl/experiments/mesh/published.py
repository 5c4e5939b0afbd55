"""The networks of Das et al.'s abstract as layers, and what it says of them; what it leaves open is assumed, aloud.

VGG-A and VGG-16: Simonyan and Zisserman (arXiv 1409.1556), table 1, images of 224 x 224, 1000 classes. OverFeat-FAST:
Sermanet et al. (arXiv 1312.6229), table 1, images of 231 x 231; its convolutions 2 to 5 have the sizes that follow from
no padding in the first two. The table and its 145 million parameters agree. The 7-layer DNN: CD-DNN for speech.
"""

from dataclasses import dataclass

from models.layer import Layer
from models.variable import blocks_of
from refimpl.plan.layers.schedule import System

INFINIBAND = System("2 x 16 cores, FDR InfiniBand", 336 * 7e9, 7e9)
ETHERNET = System("10 Gbit/s Ethernet", 1336 * 1.25e9, 1.25e9)
"""Their two system balances, 336 and 1336 FLOP/byte; only the ratio matters where nothing but these two is counted."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the abstract: how many times as fast so many nodes are as one. assumed: what it does not say."""

    network: str
    batch: int
    nodes: int
    system: System
    times: float
    assumed: str = ""


def convolutions(channels, size: int, inputs: int = 3) -> list[Layer]:
    """Return 3 x 3 convolutions that keep the size; channels: of each, or 0, which halves the size. Local."""
    layers = []
    for outputs in channels:
        if not outputs:
            size //= 2
            continue
        layers.append(Layer(f"conv{len(layers) + 1}", inputs, outputs, 3, (size, size), (size, size)))
        inputs = outputs
    return layers


def connected(*widths: int) -> list[Layer]:
    """Return fully connected layers of these widths, the first being the inputs; cut in up to 64 blocks. Local."""
    return [Layer(f"fc{number}", inputs, outputs, blocks=blocks_of(outputs)[-1])
            for number, (inputs, outputs) in enumerate(zip(widths, widths[1:]), 1)]


VGG_A = (*convolutions((64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512), 224),
         *connected(512 * 7 * 7, 4096, 4096, 1000))
VGG_16 = (*convolutions((64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512), 224),
          *connected(512 * 7 * 7, 4096, 4096, 1000))
OVERFEAT_FAST = (Layer("conv1", 3, 96, 11, (231, 231), (56, 56)), Layer("conv2", 96, 256, 5, (28, 28), (24, 24)),
                 *(Layer(f"conv{number}", inputs, outputs, 3, (12, 12), (12, 12))
                   for number, (inputs, outputs) in enumerate(((256, 512), (512, 1024), (1024, 1024)), 3)),
                 *connected(1024 * 6 * 6, 3072, 4096, 1000))
DNN = tuple(connected(429, *7 * (2048,), 9304))
NETWORKS = {"VGG-A": VGG_A, "VGG-16": VGG_16, "OverFeat-FAST": OVERFEAT_FAST, "7-layer DNN": DNN}

DNN_ASSUMED = ("7 hidden layers of 2048 after 429 inputs (11 frames of 39), 9304 outputs, minibatch 1024: recalled, "
               "the abstract says none of it")
SPEECH = Claim("7-layer DNN", 1024, 16, INFINIBAND, 6.5, DNN_ASSUMED)
FITTED = Claim("VGG-A", 256, 64, INFINIBAND, 53.0)
CLAIMS = (FITTED, Claim("VGG-A", 512, 128, INFINIBAND, 90.0), Claim("OverFeat-FAST", 256, 64, INFINIBAND, 42.0),
          SPEECH, Claim("VGG-A", 256, 16, ETHERNET, 14.0, "which network on Ethernet, and its minibatch"))
