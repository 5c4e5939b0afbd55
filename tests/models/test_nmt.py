"""The translation model: its sizes, what it needs, what padding may hold, what it refuses, beam search, gradients."""

import copy
import itertools

import numpy as np
import pytest
from nmt_batches import sentences, step, tiny, values_of

from models.data.pairs.words import END, PADDING, START
from models.gradient_check import GradientError, check_gradients
from models.nmt import PRESETS, TranslationModel
from models.nmt.beam import MOST, translate
from models.nmt.encoder import reverse_sentences
from models.nmt.sentences import Sentences


@pytest.mark.parametrize("units, layers, source, target", [(6, 2, 40, 50), (1024, 2, 36_548, 36_548), (8, 4, 11, 13)])
def test_elements_are_those_of_the_closed_form(units, layers, source, target):
    """L(i) = 4u (i + u + 1); encoder 2 L(u) + L(2u) + (n - 2) L(u); decoder n L(2u); attention 2u^2 + 2u + 1; output uV."""
    def lstm(inputs):
        return 4 * units * (inputs + units + 1)

    model = TranslationModel(source, target, units, layers, keep=1.0)
    dense = (2 * lstm(units) + lstm(2 * units) + (layers - 2) * lstm(units) + layers * lstm(2 * units)
             + 2 * units**2 + 2 * units + 1 + units * target)
    assert sum(v.size for v in model.variables if not v.sparse) == dense
    assert sum(v.size for v in model.variables if v.sparse) == units * (source + target)
    if units == PRESETS["paper"]["units"]:
        assert (dense, units * (source + target)) == (94_070_785, 74_850_304)


def test_rows_needed_are_the_rows_of_the_gradients():
    model = tiny()
    batch = sentences(model)
    needed = model.rows_needed(batch)
    counted = batch.weights > 0
    read = np.concatenate([np.full((1, 3), START), batch.targets[:-1]])[counted]
    assert np.array_equal(needed["source_embedding"], np.unique(batch.inputs[batch.inputs != PADDING]))
    assert np.array_equal(needed["target_embedding"], np.unique(read))
    _, gradients = step(model, values_of(model), batch)
    for name, ids in needed.items():
        assert np.array_equal(gradients[name].ids, ids)
    assert {v.name: v.shape for v in model.variables if not v.sparse} == \
        {name: g.shape for name, g in gradients.items() if name not in needed}


def test_what_targets_hold_at_weight_0_does_not_matter():
    model, values = tiny(), values_of(tiny())
    batch, other = sentences(model), sentences(model)
    other.targets = np.where(other.weights > 0, other.targets, 17)
    (loss, one), (same, two) = (step(model, values, b) for b in (batch, other))
    assert loss == same
    for name in one:
        pair = [getattr(g[name], "rows", g[name]) for g in (one, two)]
        assert np.array_equal(*pair)


def test_a_sentence_in_a_batch_is_the_sentence_alone():
    """The loss of a batch is the sum of its sentences' losses, padding or not."""
    model, values = tiny(keep=1.0), values_of(tiny())
    batch = sentences(model, 6, 5, 4)
    alone = 0.0
    for n in range(4):
        length, end = (batch.inputs[:, n] != PADDING).sum(), int(batch.weights[:, n].sum())
        one = sentences(model, padding=False)
        one.inputs, one.targets = batch.inputs[:length, n:n + 1], batch.targets[:end, n:n + 1]
        alone += step(model, values, one)[0]
    assert abs(step(model, values, batch)[0] - alone) <= 2.0**-44


def test_evaluation_drops_and_smooths_nothing():
    model, values = tiny(smoothing=0.1, keep=0.5), values_of(tiny())
    batch = sentences(model)
    plain = tiny(smoothing=0.0, keep=1.0)
    loss, _ = step(plain, values, batch)
    tables = {name: values[name] for name in ("source_embedding", "target_embedding")}
    found = model.evaluate(values, tables, batch)
    assert found["count"] == (batch.weights > 0).sum()
    assert abs(found["loss"] - loss * batch.normaliser) <= 2.0**-40


def test_sentences_are_reversed_within_their_lengths():
    x = np.arange(12.0).reshape(4, 3, 1)
    lengths = np.array([4, 1, 3])
    turned = reverse_sentences(x, lengths)
    assert turned[:, :, 0].T.tolist() == [[9, 6, 3, 0], [1, 4, 7, 10], [8, 5, 2, 11]]
    assert np.array_equal(reverse_sentences(turned, lengths), x)


@pytest.mark.parametrize("change, words", [
    (dict(layers=1), "at least 2"), (dict(units=0), "units must be"), (dict(keep=0.0), "keep=0.0"),
    (dict(smoothing=1.0), "smoothing=1.0"), (dict(source_vocabulary="x"), "source_vocabulary must be")])
def test_sizes_that_make_no_sense_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        tiny(**change)


@pytest.mark.parametrize("spoil, words", [
    (lambda b: setattr(b, "inputs", b.inputs[:, :2]), "give \\(time, sentences\\)"),
    (lambda b: b.inputs.__setitem__((0, 1), PADDING), "empty or has padding"),
    (lambda b: b.inputs.__setitem__((0, 1), 40), "source word 40 is outside"),
    (lambda b: b.targets.__setitem__((0, 1), 50), "target word 50 is outside"),
    (lambda b: setattr(b, "weights", b.weights[1:]), "must have one shape")])
def test_batches_that_do_not_fit_are_refused(spoil, words):
    model = tiny()
    batch = sentences(model)
    spoil(batch)
    with pytest.raises(ValueError, match=words):
        Sentences(batch, *model.vocabularies)


def log_probability(model, values, source, target):
    """Return log p of the target's first words by the training's own forward pass; END is a word, too."""
    batch = sentences(model, padding=False)
    batch.inputs, batch.targets = source[:, None], np.array(target)[:, None]
    tables = {name: values[name] for name in ("source_embedding", "target_embedding")}
    return -model.evaluate(values, tables, batch)["loss"]


def test_a_beam_that_holds_everything_finds_the_best_of_all():
    """Against every target of up to 3 words; the model prefers ends, so that longer ones do not win."""
    model = tiny(target_vocabulary=5, source_vocabulary=6, smoothing=0.0)
    values = values_of(model, spread=0.6)
    source = np.array([3, 5])
    every = [words for n in range(4) for words in itertools.product([k for k in range(5) if k != END], repeat=n)]

    def score(words):
        return log_probability(model, values, source, [*words, END]) / ((5 + len(words) + 1) / 6)

    best, found = max(every, key=score), tuple(translate(model, values, source, beam=300).tolist())
    assert found == best or len(found) > 3 and score(found) >= score(best)


def test_greedy_takes_the_likeliest_word_each_time():
    model = tiny(smoothing=0.0)
    values = values_of(model)
    source, words = np.array([5, 9, 2, 30]), []
    found = translate(model, values, source, beam=1).tolist()
    for word in found:
        logs = [log_probability(model, values, source, [*words, k]) for k in range(50)]
        assert int(np.argmax(logs)) == word
        words.append(word)
    assert len(found) <= MOST * len(source) + 10


# -- gradients, by central differences in float64 ----------------------------------------------------------------------
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
