"""The sizes of a layer, for a plan. Nothing here computes the layer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """A convolution, or a fully connected layer: a convolution whose kernel covers its whole 1 x 1 image.

    name: its variables are ``name``.weight and ``name``.bias.
    inputs, outputs:   feature maps (channels), or features: ifm and ofm of Das et al. (arXiv 1602.06709).
    kernel:            k of a k x k kernel.
    size_in, size_out: (height, width) of its input and of its output, before pooling.
    blocks:            column blocks S of a fully connected layer; 1 if it cannot be cut.
    """

    name: str
    inputs: int
    outputs: int
    kernel: int = 1
    size_in: tuple[int, int] = (1, 1)
    size_out: tuple[int, int] = (1, 1)
    blocks: int = 1

    @property
    def connected(self) -> bool:
        """Whether it is fully connected."""
        return self.size_in == (1, 1)

    @property
    def weights(self) -> int:
        """The number of elements of its kernel, without the bias."""
        return self.inputs * self.outputs * self.kernel**2

    @property
    def activations_in(self) -> int:
        """The number of input elements for one example."""
        return self.inputs * self.size_in[0] * self.size_in[1]

    @property
    def products(self) -> int:
        """Multiply-adds of the forward pass for one example: weights x output pixels. Backward needs twice this."""
        return self.weights * self.size_out[0] * self.size_out[1]


def layers_of(model) -> tuple[Layer, ...]:
    """Return the ``layers`` of a model; () if it has none, or if they are not of type Layer. Local."""
    layers = getattr(model, "layers", ())
    return tuple(layers) if isinstance(layers, list | tuple) and all(isinstance(one, Layer) for one in layers) else ()
