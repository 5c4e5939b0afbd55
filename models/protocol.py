"""The interface of models: what the trainer passes to a model, and what it gets. Nothing depends on the ranks."""

from dataclasses import dataclass, field
from typing import Any, Callable, Protocol

from models.fully_connected import FullyConnected
from models.layer import Layer
from models.variable import Variable


def nobody_waits(gradients: dict[str, Any]):
    """The default of ``Batch.ready``. It does nothing: gradients are used when the model returns."""


def unchanged(x):
    """Return x: the default of a model's ``half``."""
    return x


@dataclass
class Batch:
    """One microbatch: the unit of computation. Its gradient is always computed in one call, on one rank.

    inputs, targets: NumPy arrays in the form that the model needs (text: (time, streams) int64; images: (n, h, w, c)
                uint8 and (n,) int64). A model that may run on a GPU copies them to it by xp.asarray(batch.inputs), xp
                being ``array_module`` of its variables. Row numbers stay on the host, where they are routed.
    weights:    None, or an array of the targets' shape: 1 if the target counts, 0 if it is padding.
    normaliser: number of counted targets in the *global* batch, from the data's ``examples``. The loss is divided by it
                once, so that every reduction is a sum. It is not used for held-out data.
    key:        random key of (seed, step, microbatch). Dropout, candidates and augmentation derive their own keys by
                ``key_of(batch.key, "dropout", layer)``, so they depend on nothing else.
    state:      arrays carried from window to window, for this microbatch. The model may read and replace entries. It
                may change nothing else in a batch but notes: inputs, targets and weights are read-only.
    notes:      what a model has computed in ``rows_needed`` and uses again in ``loss_and_gradients``, by model. A
                changed copy of the batch (``dataclasses.replace``) has none.
    metrics:    name -> number, for each name in the model's ``metrics``, if it has some: a sum over the microbatch's
                targets / batch.normaliser. They are added up over the global batch, and stand in metrics.jsonl.
    index:      number of the microbatch in the global batch. The trainer sets it; messages show it.
    ready:      ready(gradients): a model may call it whenever it has added entries to the dict that it will return.
                They can then be sent while the backward pass goes on. Such an entry is final: the model must return the
                same array, unchanged. Raises an error if a gradient is wrong.
    """

    inputs: Any
    targets: Any
    weights: Any = None
    normaliser: float = 1.0
    key: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    ready: Callable[[dict[str, Any]], None] = field(default=nobody_waits, repr=False, compare=False)
    index: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    notes: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)


class Model(Protocol):
    """A single-device model. Training on any number of ranks needs only these three members."""

    variables: list[Variable]

    def rows_needed(self, batch: Batch) -> dict[str, Any]:
        """Return the rows of each sparse variable that the batch touches: name -> (k,) int64, sorted, unique."""

    def loss_and_gradients(self, dense: dict[str, Any], rows: dict[str, Any], batch: Batch):
        """Return (loss, gradients) of one microbatch.

        dense: name -> whole value.  rows: name -> (k, d), the rows named by ``rows_needed``, in that order.
        Arrays are NumPy's or CuPy's, by ``--device``. Values in both mappings may still be in transit. A look-up waits
        for its value, so look it up only where you use it. Gradients passed to ``batch.ready`` are sent first.
        loss: sum over the microbatch's targets / batch.normaliser, as a number, or as a 0-d array on the device
        (converting it to a number would wait for the device).
        gradients: name -> array of the variable's shape (dense), or RowGradient (sparse).
        The values may be the live parameters: never write to them. NumPy arrays are read-only; copies are yours.
        A RowGradient is kept until the step's exchange: give it arrays of its own, and only rows from ``rows_needed``.
        Dense gradients are added up at once, so the model may reuse their buffers. Gradients are plain arrays of the
        variable's dtype (np.float32(x) if its shape is ()).
        A model that breaks these rules gets an error that names the variable. Writing despite the read-only flag
        (np.add.at, PyTorch) is detected in the first step of a session. Whether the loss was divided by the normaliser
        is not checked.
        """

    # Optional: evaluate(dense, tables, batch) -> {"loss": sum, "count": n[, "correct": k]}. tables: each whole sparse
    # variable. Nothing is dropped or sampled. loss is a sum over targets, not divided.
    # Optional, for --precision: half(x), ``unchanged`` by default, which the model calls on what each of its layers
    # puts out, forward and backward. During ``loss_and_gradients`` the training sets another one, which rounds to 16
    # bits.
    # Optional: keep_learned(name, value), called on every rank after training with the whole value of each variable in
    # ``names_to_keep``, which must be the same on every rank.


class Sharded(Protocol):
    """More members of a model whose fully connected layers can be cut over the ranks of a group (``--mesh``).

    ``models.fully_connected.loss_and_gradients`` combines them into ``loss_and_gradients``: features, the connected
    layers in turn, loss; then backward.
    connected: the fully connected layers at the end of the network.  layers: the sizes of all layers, for a plan.
    """

    connected: list[FullyConnected]
    layers: list[Layer]

    def features(self, dense: dict[str, Any], batch: Batch):
        """Return (x, targets, saved). x: the input of the first connected layer for n counted examples, (n, inputs)."""

    def features_backward(self, grad, saved, dense: dict[str, Any], ready: Callable[[dict[str, Any]], None]):
        """Return the gradients of all variables outside the connected layers. grad: of x; ready: as ``Batch.ready``."""

    def loss(self, logits, targets, normaliser: float):
        """Return (loss, gradient of the logits) of these examples, divided by the global batch's normaliser."""
