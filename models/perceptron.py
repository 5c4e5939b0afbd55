"""The smallest model whose layers can be cut over ranks: fully connected layers and a squared error."""

from dataclasses import replace

from kernels.arrays import array_module
from models.fully_connected import FullyConnected, loss_and_gradients


class Perceptron:
    """Fully connected layers of ``widths`` outputs with relu and dropout, then one of ``outputs``, which is not cut.

    See ``models.protocol.Sharded``.  Batches: inputs (n, inputs), targets (n, outputs), of the variables' dtype.
    loss: sum over examples of (y - target)² / normaliser.
    """

    def __init__(self, inputs=12, widths=(8, 8), outputs=3, blocks=4, keep=1.0, dtype="float32"):
        sizes = [inputs, *widths]
        self.connected = [FullyConnected(f"fc{i}", *pair, blocks, keep=keep)
                          for i, pair in enumerate(zip(sizes, widths), 1)]
        self.connected.append(FullyConnected("out", sizes[-1], outputs, last=True))
        self.layers = [layer.layer for layer in self.connected]
        self.variables = [v for layer in self.connected for v in layer.variables(dtype)]

    def rows_needed(self, batch):
        return {}  # no variable is sparse

    def loss_and_gradients(self, dense, rows, batch):
        return loss_and_gradients(self, dense, batch)

    def features(self, dense, batch):
        """Return (inputs, targets, None): there is no layer before the connected layers."""
        xp = array_module(dense["out.weight"])
        return xp.asarray(batch.inputs), xp.asarray(batch.targets), None

    def features_backward(self, grad, saved, dense, ready):
        """Return {}: there is no layer before the connected layers."""
        return {}

    def loss(self, logits, targets, normaliser):
        error = logits - targets
        return float((error**2).sum(dtype="float64")) / normaliser, error * error.dtype.type(2 / normaliser)

    def evaluate(self, dense, tables, batch):
        """Return {"loss": sum over examples of (y - target)², "count": examples}: nothing is dropped. Local."""
        x, targets, _ = self.features(dense, batch)
        for layer in self.connected:
            x, _ = replace(layer, keep=1.0).forward(x, *layer.of(dense), 0, 0)
        return {"loss": self.loss(x, targets, 1)[0], "count": len(x)}
