"""Equals plain/training/mixed_precision.py: the model computes with 16 bits, float32 masters and a scale of its loss.

    values      rounded copies of the masters       layers     model.half(x) of each output, forward and backward
    gradients   of S times the loss, rounded        sums       float32, divided by S when the optimizer uses them

The loss is scaled by the normaliser, n / S, so a model need not know S. On a CPU 16 bits are emulated by rounding.
"""

from typing import Any

from kernels import RowGradient, half
from refimpl.gradients.codecs import codec_of
from refimpl.plain.training.mixed_precision import LossScale
from refimpl.plan.plan import SYNCHRONOUS
from refimpl.training.step.arriving import Arriving

PATIENCE = 2000
"""The number of good steps in a row after which the scale is doubled."""


class Mixed:
    """A model in 16 bits, in place of one with ``half``. kind: "bf16", "fp16".  loss_scale: of all ranks. Local."""

    def __init__(self, model, kind: str):
        self.model, self.kind, self.loss_scale = model, kind, LossScale(patience=PATIENCE)
        self.statistics = {v.name for v in model.variables if v.statistic}

    def __getattr__(self, name):
        return getattr(self.model, name)

    def half(self, x):
        """Return float32 numbers, rounded to 16 bits."""
        return half.rounded(x, self.kind)

    def loss_and_gradients(self, dense, rows, batch):
        """Return (loss, gradients of S times the loss), which may be infinite or NaN."""
        normaliser, ready, scale = batch.normaliser, batch.ready, self.loss_scale.scale
        found: dict[str, Any] = {}

        def finish(gradients):
            found.update((name, self._finished(name, g)) for name, g in gradients.items() if name not in found)
            return found

        batch.normaliser, batch.ready, self.model.half = normaliser / scale, lambda g: ready(finish(g)), self.half
        try:
            loss, gradients = self.model.loss_and_gradients(
                Arriving(dense, lambda name: dense[name] if name in self.statistics else self.half(dense[name])),
                Arriving(rows, lambda name: self.half(rows[name])), batch)
            return loss / scale, finish(gradients)
        finally:
            del self.model.half
            batch.normaliser, batch.ready = normaliser, ready

    def _finished(self, name, gradient):
        if name in self.statistics:
            return gradient / gradient.dtype.type(self.loss_scale.scale)
        return (RowGradient(gradient.ids, self.half(gradient.rows)) if isinstance(gradient, RowGradient)
                else self.half(gradient))


def with_precision(model, options, plan, device: str):
    """Return the model with ``options.precision``. Local. Raises ValueError for options that do not go with 16 bits."""
    kind = options.precision
    if kind is None:
        return model
    other = [v.name for v in model.variables if v.dtype != "float32"]
    codecs = {s.codec for s in plan.strategies.values()
              if codec_of(s.codec).scaled or codec_of(s.codec).strategy}
    for refused, words in (
            (not hasattr(model, "half"), f"{type(model).__name__} does not round what its layers put out: only a model "
                                         "with half (models/protocol.py) can; leave it out"),
            (other, f"{other[:1]} is not float32: say --dtype float32"),
            (device != "cpu", "16 bits are emulated by rounding, on a CPU only: leave --device out"),
            (plan.on_mesh.model > 1, "layers that are cut over ranks are not rounded: leave --mesh out"),
            (options.consistency != SYNCHRONOUS, "without barriers ranks cannot agree to leave a step out: leave "
                                                 "--consistency out"),
            (codecs, f"{', '.join(sorted(codecs))} cannot encode gradients that overflow: say --codec dense={kind}")):
        if refused:
            raise ValueError(f"--precision {kind}: {words}")
    return Mixed(model, kind)
