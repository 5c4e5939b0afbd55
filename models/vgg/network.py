"""Vgg: a VGG network (Simonyan and Zisserman 2015), whose fully connected layers can be cut over ranks."""

import math
from dataclasses import replace

from kernels.arrays import array_module
from models.fully_connected import FullyConnected, loss_and_gradients
from models.layer import Layer
from models.sizes import require_all_positive, require_few, require_flag, require_kept, require_positive
from models.vgg.stage import stage_backward, stage_forward, stages_of
from models.vision.convolution import conv_variables
from models.vision.cross_entropy import divided_cross_entropy, evaluated
from models.vision.images import counted_images, normalize_images, require_image_shape

_16 = {"stages": (2, 2, 3, 3, 3), "width": 64, "connected": (4096, 4096), "blocks": 8}
_A = {**_16, "stages": (1, 1, 2, 2, 2)}
PRESETS = {
    "vgg16": _16, "vgg-a": _A, "vgg16-cifar": _16, "vgg-a-cifar": _A,
    "small": {"stages": (1, 1, 1), "width": 32, "connected": (512, 512), "blocks": 4},
    "tiny": {"stages": (1, 2), "width": 4, "connected": (16, 12), "blocks": 4},
}
"""Named sizes. vgg16, vgg-a: the authors' configurations D and A, for images of 224 x 224 and 1000 classes: 138 and 133
million weights; -cifar: the same for CIFAR-10's images. small: for digits, fashion-mnist and cifar10. tiny: for tests.
Column blocks are a power of two: each rank in a group of 2, 4 or 8 computes a node of the binary tree of their sum.
"""


class Vgg:
    """Stages of 3x3 convolutions and 2x2 max pooling, fully connected layers with relu and dropout: images to classes.

    It implements ``models.protocol.Sharded``.
    image_shape: (height, width, channels).  stages: convolutions in each stage; an integer means one stage.
    width: outputs of the first stage; each further stage doubles them, up to 8 ``width``.
    connected: outputs of the hidden connected layers; an integer means one layer.  keep: of dropout in each of them.
    blocks: column blocks of each connected layer, a power of two; 1 in the output layer if they do not divide
    ``classes``.  augment, flip, batches: see ``models.cnn.ConvNet``.
    """

    def __init__(self, image_shape, classes, stages=(1, 1, 1), width=32, connected=(512, 512), blocks=4, keep=0.5,
                 augment=True, dtype="float32", flip=False):
        stages, connected = (v if isinstance(v, (tuple, list)) else (v,) for v in (stages, connected))
        require_image_shape(image_shape)
        require_all_positive(stages=stages, connected=connected)
        require_positive(classes=classes, width=width, blocks=blocks)
        require_flag(augment=augment, flip=flip)
        require_few(sum(stages) + len(stages), f"stages={stages}")
        require_few(len(connected), f"connected={connected}")
        require_kept(keep)
        self.image_shape, self.classes, self.dtype = tuple(image_shape), classes, dtype
        self.augment, self.flip = augment, flip
        self.stages = stages_of(image_shape, stages, width)
        self.variables = [v for layer in self._convolutions
                          for v in conv_variables(layer.name, 3, layer.inputs, layer.outputs, dtype, bias=True)]
        self.connected = self._connected(connected, blocks, keep)
        self.variables += [v for layer in self.connected for v in layer.variables(dtype)]

    @property
    def _convolutions(self) -> list[Layer]:
        return [layer for stage in self.stages for layer in stage]

    @property
    def pooled_shape(self) -> tuple[int, int, int]:
        """The (height, width, channels) of the last stage's result."""
        last = self.stages[-1][-1]
        return last.size_out[0] // 2, last.size_out[1] // 2, last.outputs

    def _connected(self, widths, blocks, keep) -> list[FullyConnected]:
        inputs, made = math.prod(self.pooled_shape), []
        for number, outputs in enumerate(widths):
            made.append(FullyConnected(f"connected{number}", inputs, outputs, blocks, keep=keep))
            inputs = outputs
        own = 1 if self.classes % blocks else blocks
        return [*made, FullyConnected("output", inputs, self.classes, own, last=True)]

    @property
    def layers(self) -> list[Layer]:
        """The sizes of all layers, for a plan."""
        return self._convolutions + [layer.layer for layer in self.connected]

    def rows_needed(self, batch):
        return {}  # no variable is sparse

    def loss_and_gradients(self, dense, rows, batch):
        return loss_and_gradients(self, dense, batch)

    def features(self, dense, batch):
        """Return (x, targets, saved). x: the last stage's result for the n counted, augmented examples, (n, h w c)."""
        images, targets = counted_images(self, batch, array_module(dense["stage0.conv0.weight"]), self.augment)
        x, saved = self._forward(images, dense)
        return x, targets, saved

    def _forward(self, images, dense):
        xp = array_module(dense["stage0.conv0.weight"])
        if len(images) == 0:
            return xp.zeros((0, math.prod(self.pooled_shape)), self.dtype), None
        x, saved = normalize_images(images, self.dtype), []
        for stage in self.stages:
            x, inner = stage_forward(x, stage, dense)
            saved.append(inner)
        return x.reshape(len(images), -1), saved

    def features_backward(self, grad, saved, dense, ready):
        """Return the gradients of the convolutions. grad: of the features. ``ready`` is called between the stages."""
        if saved is None:
            xp = array_module(grad)
            names = {f"{layer.name}.{part}" for layer in self._convolutions for part in ("weight", "bias")}
            return {v.name: xp.zeros(v.shape, v.dtype) for v in self.variables if v.name in names}
        grad, gradients = grad.reshape(len(grad), *self.pooled_shape), {}
        for s in reversed(range(len(self.stages))):
            grad = stage_backward(grad, saved[s], self.stages[s], dense, gradients, input_gradient=s > 0)
            if s > 0:
                ready(gradients)
        return gradients

    def loss(self, logits, targets, normaliser):
        """Return (sum of cross entropies / normaliser, its gradient). logits: (n, classes); targets: (n,)."""
        return divided_cross_entropy(logits, targets, normaliser) if len(targets) else (0.0, logits)

    def evaluate(self, dense, tables, batch):
        """Return {"loss": sum, "count": examples, "correct": k}, without augmentation or dropout. Local."""
        images, targets = counted_images(self, batch, array_module(dense["stage0.conv0.weight"]), augment=False)
        x, _ = self._forward(images, dense)
        for layer in self.connected:
            x, _ = replace(layer, keep=1.0).forward(x, *layer.of(dense), 0, 0)
        return evaluated(x, targets)
