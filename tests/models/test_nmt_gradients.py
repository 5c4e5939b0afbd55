"""The translation model's gradients, proved by central differences in float64."""

import copy

import pytest
from nmt_batches import sentences, tiny

from models.gradient_check import GradientError, check_gradients
from models.nmt import PRESETS, TranslationModel

SPREAD = 1.0  # by default attention is so even that its gradients are below what differences can tell


@pytest.mark.parametrize("layers, keep, smoothing", [(2, 0.8, 0.1), (3, 1.0, 0.1), (2, 1.0, 0.0), (3, 0.8, 0.0)])
@pytest.mark.thorough("2-0.8")
def test_gradients(layers, keep, smoothing):
    """Every value of each beside every value of each other."""
    model = tiny(layers=layers, keep=keep, smoothing=smoothing)
    check_gradients(model, sentences(model), spread=SPREAD, projections=1)


@pytest.mark.parametrize("source, target, count", [(1, 1, 1), (1, 4, 2), (6, 1, 3)])
def test_gradients_of_odd_batches(source, target, count):
    model = tiny(keep=0.7)
    for variable in ("attention/query", "attention/v", "attention/g", "attention/bias"):
        assert variable in {v.name for v in model.variables}
    if source == 1:  # attention to one word has nothing to choose: its gradients are zero
        _zero_attention(model, sentences(model, source, target, count, padding=False))
        return
    check_gradients(model, sentences(model, source, target, count), spread=SPREAD, projections=1)


def _zero_attention(model, batch):
    from nmt_batches import step, values_of

    _, gradients = step(model, values_of(model), batch)
    for name in ("attention/memory", "attention/query", "attention/v", "attention/g", "attention/bias"):
        assert abs(gradients[name]).max() <= 1e-15


class Remembering(TranslationModel):
    """Computes each answer once: every check below asks for the same ones, variable after variable."""

    known = {}

    def loss_and_gradients(self, dense, rows, batch):
        asked = tuple((name, value.tobytes()) for name, value in {**dense, **rows}.items())
        if asked not in self.known:
            self.known[asked] = super().loss_and_gradients(dense, rows, batch)
        loss, gradients = self.known[asked]
        return loss, dict(gradients)


def test_a_planted_error_is_named():
    """In each variable's gradient. One test, so that one process remembers all answers."""
    class Wrong(Remembering):
        name = ""

        def loss_and_gradients(self, dense, rows, batch):
            loss, gradients = super().loss_and_gradients(dense, rows, batch)
            gradients[self.name] = copy.deepcopy(gradients[self.name])
            array = getattr(gradients[self.name], "rows", gradients[self.name])
            array *= 1.01
            return loss, gradients

    model = Wrong(**{**PRESETS["tiny"], "keep": 1.0, "dtype": "float64"})
    for variable in model.variables:
        model.name = variable.name
        with pytest.raises(GradientError, match=f"'{variable.name}'"):
            check_gradients(model, sentences(model), spread=SPREAD, projections=1)
