"""What the trainer asks of a model, and what it hands to it. Nothing here knows how many ranks there are."""

from dataclasses import dataclass, field
from typing import Any, Callable, Protocol

from models.fully_connected import FullyConnected
from models.layer import Layer
from models.variable import Variable


def nobody_waits(gradients: dict[str, Any]):
    """Take no gradient before the model returns."""


@dataclass
class Batch:
    """One microbatch: the unit of computation. Its gradient is always computed in one call, on one rank.

    inputs, targets: NumPy arrays as the model wants them (of text (time, streams) int64; of images (n, h, w, c) uint8
                and (n,) int64). A model that may run on a GPU takes there what it computes with:
                xp.asarray(batch.inputs), xp being ``array_module`` of its variables; row numbers stay on the host,
                where they are routed.
    weights:    None, or an array of targets' shape: 1 where the target counts, 0 where it is padding.
    normaliser: number of counted targets in the *global* batch, which the data's ``examples`` says; the loss divides by
                it once: every reduction is a sum. Of held-out data it is not used.
    key:        random key of (seed, step, microbatch): dropout, candidates, augmentation take theirs with
                ``key_of(batch.key, "dropout", layer)``, so they depend on nothing else.
    state:      arrays carried from window to window; the model may read and replace entries. Belongs to the microbatch.
                Of a batch it is all that a model may change: inputs, targets and weights are read-only.
    index:      number of the microbatch in the global batch; the trainer sets it, and messages name it.
    ready:      ready(gradients): a model may call it whenever it has added entries to the dict that it will return, so
                that they can leave while its backward pass goes on. An entry that was ready is final: the dict is
                returned with that very array in it, not written since. May raise what is wrong with a gradient.
    """

    inputs: Any
    targets: Any
    weights: Any = None
    normaliser: float = 1.0
    key: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    ready: Callable[[dict[str, Any]], None] = field(default=nobody_waits, repr=False, compare=False)
    index: int = 0


class Model(Protocol):
    """A single-device model. These three are all that training on any number of ranks needs."""

    variables: list[Variable]

    def rows_needed(self, batch: Batch) -> dict[str, Any]:
        """Return the rows of each sparse variable that the batch touches: name -> (k,) int64, sorted, unique."""

    def loss_and_gradients(self, dense: dict[str, Any], rows: dict[str, Any], batch: Batch):
        """Return (loss, gradients) of one microbatch.

        dense: name -> whole value.  rows: name -> (k, d), the rows named by ``rows_needed``, in that order.
        Arrays are NumPy's or CuPy's, by ``--device``. Both are mappings whose values may still be on their way: looking
        one up waits for it, so look it up where it is used. Gradients that are ``batch.ready`` before the others leave
        before them.
        loss: sum over the microbatch's targets / batch.normaliser, a number, or a 0-d array on the device: to make a
        number of it there would be to wait.
        gradients: name -> array of the variable's shape (dense), or RowGradient (sparse).
        The values may be the live ones: do not write to them, now or later; NumPy's are read-only, and copies are
        yours. A RowGradient is kept until the step's exchange: give it arrays of its own, and no rows that
        ``rows_needed`` did not name. Dense gradients are added up at once, and may be buffers that the model uses
        again. Gradients are plain arrays of the variable's dtype (np.float32(x) where its shape is ()).
        Whoever does otherwise is named; who writes past NumPy's flag (np.add.at, PyTorch), in a session's first step.
        How a model divides nobody sees.
        """

    # Optional: evaluate(dense, tables, batch) -> {"loss": sum, "count": n[, "correct": k]}, where tables holds each
    # sparse variable whole, nothing is dropped or sampled, and loss is a sum over targets (not divided).
    # Optional: keep_learned(name, value), called on every rank when a training has ended, with the whole value of each
    # variable in ``names_to_keep``, which are the same on every rank.


class Sharded(Protocol):
    """What a model has besides, for its fully connected layers to be cut over the ranks of a group (``--mesh``).

    ``loss_and_gradients`` is then these parts, put together by ``models.fully_connected.loss_and_gradients``: features,
    the connected layers in turn, loss; and back.
    connected: the fully connected layers, which end the network.  layers: all layers, as a plan sees them.
    """

    connected: list[FullyConnected]
    layers: list[Layer]

    def features(self, dense: dict[str, Any], batch: Batch):
        """Return (x, targets, saved): what enters the first connected layer, (n, inputs), of the n counted examples."""

    def features_backward(self, grad, saved, dense: dict[str, Any], ready: Callable[[dict[str, Any]], None]):
        """Return the gradients of all variables but the connected layers'; grad: of x; ready: as ``Batch.ready``."""

    def loss(self, logits, targets, normaliser: float):
        """Return (loss, gradient of the logits): of these examples, divided by the global batch's normaliser."""
