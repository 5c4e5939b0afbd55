"""ConvNet: a small residual network for small images (He et al. 2016, section 4.2), every variable dense."""

import math

from kernels.arrays import array_module
from models.cnn.batch_norm import norm_backward, norm_forward, norm_variables, statistics_shares
from models.cnn.block import block_backward, block_forward, block_norms, block_variables
from models.protocol import unchanged
from models.sizes import require_all_positive, require_few, require_flag, require_positive
from models.variable import Uniform, Variable
from models.vision.convolution import conv_backward, conv_forward, conv_variables
from models.vision.cross_entropy import divided_cross_entropy, evaluated
from models.vision.images import counted_images, normalize_images, require_image_shape

PRESETS = {
    "small": {"width": 16, "blocks": (1, 1, 1)},
    "tiny": {"width": 4, "blocks": (1, 1)},
}
"""Named sizes. small: 78 thousand weights, 8 layers; for digits, fashion-mnist and cifar10. tiny: for tests."""


class ConvNet:
    """3x3 stem, stages of basic blocks, global average pooling, linear layer: images to classes.

    image_shape: (height, width, channels).  blocks: the number of basic blocks in each stage; an integer means one
    stage. The first stage has ``width`` channels. Each further stage has twice the channels of the stage before, and
    its first block has stride 2.
    augment: random crops in training.  flip: mirrored images too (not for digits: a mirrored 2 is not a digit).
    Batches: inputs (n, height, width, channels) uint8, targets (n,) integers, weights None or (n,) of 0 and 1. An
    example of weight 0 is left out, also of the batch statistics.
    """

    def __init__(self, image_shape, classes, width=16, blocks=(1, 1, 1), augment=True, dtype="float32", flip=False):
        blocks = blocks if isinstance(blocks, (tuple, list)) else (blocks,)
        require_image_shape(image_shape)
        require_all_positive(blocks=blocks)
        require_positive(classes=classes, width=width)
        require_flag(augment=augment, flip=flip)
        require_few(sum(blocks), f"blocks={blocks}")
        self.image_shape, self.classes, self.dtype = tuple(image_shape), classes, dtype
        self.augment, self.flip = augment, flip
        self.blocks = [  # (name, output channels, stride)
            (f"stage{s}.block{b}", width << s, 2 if s > 0 and b == 0 else 1)
            for s, count in enumerate(blocks) for b in range(count)
        ]
        channels = width
        self.variables = [*conv_variables("stem", 3, image_shape[2], width, dtype),
                          *norm_variables("stem_norm", width, dtype)]
        for name, outputs, stride in self.blocks:
            self.variables += block_variables(name, channels, outputs, stride, dtype)
            channels = outputs
        self.variables += head_variables("head", channels, classes, dtype)

    half = staticmethod(unchanged)

    def rows_needed(self, batch):
        return {}  # no variable is sparse

    def loss_and_gradients(self, dense, rows, batch):
        """Return (sum of cross entropies / batch.normaliser, gradients); see models.protocol. Local.

        The gradient of a running statistic is this microbatch's share of the step's estimate:
        (its examples / batch.normaliser) * its own mean or variance.
        """
        xp = array_module(dense["stem.weight"])
        images, targets = counted_images(self, batch, xp, self.augment)
        if len(images) == 0:
            return 0.0, {v.name: xp.zeros(v.shape, dtype=v.dtype) for v in self.variables}
        logits, saved = self.forward(self.half(normalize_images(images, self.dtype)), dense)
        loss, grad = divided_cross_entropy(logits, targets, batch.normaliser)
        gradients = self.backward(self.half(grad), saved, dense, len(images) / batch.normaliser, batch.ready)
        return loss, gradients

    def forward(self, x, dense, running=False):
        """Return (logits, saved), saved for ``backward``: x (n, h, w, c), logits (n, classes).

        running: normalise with the running statistics, not with the microbatch's own.
        """
        y, stem_norm = norm_forward(conv_forward(x, dense, "stem"), dense, "stem_norm", True, running)
        y, block_saved = self.half(y), []
        for name, _, stride in self.blocks:
            y, saved = block_forward(y, dense, name, stride, running, self.half)
            block_saved.append(saved)
        logits, head = head_forward(y, dense, "head")
        return logits, (x, stem_norm, block_saved, head)

    def backward(self, grad, saved, dense, share, ready):
        """Return the gradient of every variable: name -> array of its shape; call ``ready`` after each block."""
        x, stem_norm, block_saved, head = saved
        norms = {"stem_norm": stem_norm}
        for (name, _, _), inner in zip(self.blocks, block_saved):
            norms |= block_norms(inner, name)
        gradients, shares = {}, statistics_shares(norms, share)
        grad = self.half(head_backward(grad, head, dense, "head", gradients))
        ready(gradients)
        for (name, _, stride), inner in zip(reversed(self.blocks), reversed(block_saved)):
            grad = block_backward(grad, inner, dense, name, stride, gradients, shares, self.half)
            ready(gradients)
        grad = norm_backward(grad, stem_norm, dense, "stem_norm", gradients, shares, relu=True)
        conv_backward(grad, x, dense, "stem", gradients, input_gradient=False)
        return gradients

    def evaluate(self, dense, tables, batch):
        """Return {"loss": sum over examples, "count": examples, "correct": correctly classified}. Local.

        It normalises with the running statistics and augments nothing, so each image's result depends on it alone.
        """
        images, targets = counted_images(self, batch, array_module(dense["stem.weight"]), augment=False)
        if len(images) == 0:
            return {"loss": 0.0, "count": 0, "correct": 0}
        logits, _ = self.forward(normalize_images(images, self.dtype), dense, running=True)
        return evaluated(logits, targets)


def head_variables(name, channels, classes, dtype):
    """Return weight (channels, classes), initial variance 1 / (3 channels), and bias (classes,), zero."""
    return [Variable(f"{name}.weight", (channels, classes), initial=Uniform(1 / math.sqrt(channels)), dtype=dtype),
            Variable(f"{name}.bias", (classes,), dtype=dtype, decays=False)]


def head_forward(x, dense, name):
    """Return (logits (n, classes), saved): mean of x (n, h, w, channels) over its pixels @ weight + bias."""
    pooled = x.mean(axis=(1, 2))
    return pooled @ dense[f"{name}.weight"] + dense[f"{name}.bias"], (pooled, x.shape)


def head_backward(grad, saved, dense, name, gradients):
    """Return the gradient of x; put the gradients of weight and bias into ``gradients``."""
    pooled, shape = saved
    gradients[f"{name}.weight"] = pooled.T @ grad
    gradients[f"{name}.bias"] = grad.sum(axis=0)
    grad_pooled = grad @ dense[f"{name}.weight"].T
    each_pixel = grad_pooled / grad.dtype.type(shape[1] * shape[2])
    return array_module(grad).broadcast_to(each_pixel[:, None, None, :], shape)
