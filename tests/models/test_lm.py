"""The language model: its variables, what it needs, what it carries, what it refuses, its gradients, that it learns."""

import dataclasses
import math

import numpy as np
import pytest

from kernels.random import key_of
from models import Batch
from models.candidates import draw_candidates
from models.gradient_check import GradientError, check_gradients
from models.lm import PRESETS, LanguageModel


def tiny(**changes):
    return LanguageModel(**{**PRESETS["tiny"], "dtype": "float64", **changes})


def values(model, seed=0):
    """Return (dense, tables) of initial values."""
    everything = {v.name: v.initial_value(seed) for v in model.variables}
    sparse = [v.name for v in model.variables if v.sparse]
    return {n: v for n, v in everything.items() if n not in sparse}, {n: everything[n] for n in sparse}


def step(model, dense, tables, batch):
    rows = {name: tables[name][ids] for name, ids in model.rows_needed(batch).items()}
    return model.loss_and_gradients(dense, rows, batch)


def words(model, time=6, streams=4, seed=0):
    return np.random.default_rng(seed).integers(0, model.vocabulary, (2, time, streams))


def whole_of(time=6, **changes):
    """Return (model, dense, tables, inputs, targets)."""
    model = tiny(**changes)
    return model, *values(model), *words(model, time)


def test_the_paper_preset_has_the_papers_sizes():
    model = LanguageModel(**PRESETS["paper"])
    assert sum(v.size for v in model.variables if not v.sparse) == 9_445_376
    assert sum(v.size for v in model.variables if v.sparse) == 813_306_750
    assert {v.name for v in model.variables if v.clipped} == {"lstm0/kernel", "lstm0/bias", "lstm0/projection"}
    assert all(v.clipped for v in tiny().variables)


def test_rows_needed_are_the_rows_of_the_gradients():
    model, dense, tables, inputs, targets = whole_of(layers=2)
    weights = np.ones(inputs.shape, np.float32)
    weights[2:, 1] = 0
    inputs[2:, 1], targets[2:, 1] = 49, 48  # would be needed only by padding
    inputs[inputs == 49], targets[targets == 48] = 1, 1
    batch = Batch(inputs, targets, weights, key=3)
    needed = model.rows_needed(batch)
    assert np.array_equal(needed["embedding"], np.unique(inputs[weights > 0]))
    drawn = draw_candidates(key_of(3, "candidates"), model.samples, model.vocabulary)
    assert np.array_equal(needed["softmax_weight"], np.union1d(targets[weights > 0], drawn.ids))
    _, gradients = step(model, dense, tables, batch)
    for name, ids in needed.items():
        assert ids.dtype == np.int64 and np.array_equal(gradients[name].ids, ids)
        assert gradients[name].rows.shape == (len(ids), tables[name].shape[1])
    assert set(gradients) == {v.name for v in model.variables}
    assert all(gradients[v.name].shape == v.shape for v in model.variables if not v.sparse)


def test_what_was_computed_for_the_rows_belongs_to_one_batch_and_key():
    model, dense, tables, inputs, targets = whole_of()
    batch = Batch(inputs, targets, key=3)
    first = step(model, dense, tables, batch)
    assert batch.notes and not dataclasses.replace(batch).notes
    batch.key, batch.state = 4, {}
    again = step(model, dense, tables, batch)
    assert again[0] == step(model, dense, tables, Batch(inputs, targets, key=4))[0] != first[0]
    batch.targets, batch.state = targets[:, ::-1].copy(), {}
    other = step(model, dense, tables, batch)
    assert other[0] != again[0]
    batch.normaliser, batch.state = batch.normaliser / 8, {}  # as mixed precision does between the two calls
    assert step(model, dense, tables, batch)[0] == 8 * other[0]


def test_what_padding_holds_does_not_matter():
    model = tiny()
    dense, tables = values(model)
    results = []
    for filler in (0, 49, 10**12, -1):
        inputs, targets = words(model)
        weights = np.ones(inputs.shape, np.float32)
        weights[3:, 2] = 0
        inputs[3:, 2] = targets[3:, 2] = filler
        batch = Batch(inputs, targets, weights, key=3)
        loss, gradients = step(model, dense, tables, batch)
        results.append((loss, gradients["lstm0/kernel"].tobytes(), gradients["embedding"].rows.tobytes()))
    assert len(set(results)) == 1


def test_a_batch_of_padding_only_is_legal():
    model, dense, tables, inputs, targets = whole_of()
    batch = Batch(inputs, targets, np.zeros(inputs.shape), key=3)
    assert all(len(ids) == 0 for ids in model.rows_needed(batch).values())
    loss, gradients = step(model, dense, tables, batch)
    assert loss == 0.0
    assert all(len(gradients[v.name]) == 0 if v.sparse else not gradients[v.name].any() for v in model.variables)
    assert model.evaluate(dense, tables, batch)["count"] == 0


def test_weights_of_one_change_nothing():
    model, dense, tables, inputs, targets = whole_of()
    plain = step(model, dense, tables, Batch(inputs, targets, key=3, normaliser=24))
    weighted = step(model, dense, tables, Batch(inputs, targets, np.ones(inputs.shape), key=3, normaliser=24))
    assert plain[0] == weighted[0]
    assert np.array_equal(plain[1]["lstm0/kernel"], weighted[1]["lstm0/kernel"])


@pytest.mark.parametrize("keep", [1.0, 0.7])
def test_the_same_batch_gives_the_same_bits_and_another_key_others(keep):
    other = tiny(keep=keep, dtype="float32")
    model, dense, tables, inputs, targets = whole_of(keep=keep, dtype="float32")
    first = step(model, dense, tables, Batch(inputs, targets, key=3))
    kept = {name: getattr(g, "rows", g).tobytes() for name, g in first[1].items()}
    step(model, dense, tables, Batch(targets, inputs, key=5))
    for name, g in first[1].items():
        assert kept[name] == getattr(g, "rows", g).tobytes(), "gradients must not live in memory that is used again"
    again = step(other, dense, tables, Batch(inputs, targets, key=3))
    assert first[0] == again[0] and np.array_equal(first[1]["lstm0/kernel"], again[1]["lstm0/kernel"])
    assert step(model, dense, tables, Batch(inputs, targets, key=4))[0] != first[0]


@pytest.mark.parametrize("layers", [1, 2])
def test_two_windows_with_carried_state_are_one_long_window(layers):
    """Equal up to rounding: the products over all steps are cut differently. Sums of 48 terms below 8 in float64."""
    model, dense, tables, inputs, targets = whole_of(time=12, layers=layers)
    whole = model.evaluate(dense, tables, Batch(inputs, targets))
    state, parts, cuts = {}, 0.0, (slice(0, 5), slice(5, 12))
    for piece in cuts:
        batch = Batch(inputs[piece], targets[piece], state=state)
        parts += model.evaluate(dense, tables, batch)["loss"]
        state = batch.state
    assert set(state) == {f"lstm{n}/{s}" for n in range(layers) for s in "ch"}
    assert abs(parts - whole["loss"]) < 48 * 8 * 100 * 2.0**-53
    fresh = sum(model.evaluate(dense, tables, Batch(inputs[p], targets[p]))["loss"] for p in cuts)
    assert abs(fresh - whole["loss"]) > 1e-6, "without the state it is another number"


def test_the_carried_state_is_its_own_memory():
    model, dense, tables, inputs, targets = whole_of()
    batch = Batch(inputs, targets, key=1)
    step(model, dense, tables, batch)
    kept = {n: s.copy() for n, s in batch.state.items()}
    step(model, dense, tables, Batch(targets, inputs, key=1))
    assert all(np.array_equal(kept[n], s) for n, s in batch.state.items())


def test_evaluation_is_the_full_cross_entropy_whatever_the_block():
    from models.sampled_softmax import softmax_losses

    random = np.random.default_rng(0)
    hidden, weight, bias = random.normal(size=(7, 5)), random.normal(size=(31, 5)), random.normal(size=(31, 1))
    targets = random.integers(0, 31, 7)
    logits = hidden @ weight.T + bias[:, 0]
    expected = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(7), targets]
    for block in (1, 7, 50, 10**6):
        found = softmax_losses(hidden, weight, bias, targets, block)
        # 31 terms summed, logits of five terms: fewer than 100 roundings of numbers below 16
        assert np.abs(found - expected).max() < 100 * 16 * 2.0**-53


def test_uniform_logits_score_the_log_of_the_vocabulary():
    model, dense, tables, inputs, targets = whole_of()
    tables["softmax_weight"] = np.zeros_like(tables["softmax_weight"])
    result = model.evaluate(dense, tables, Batch(inputs, targets))
    assert result["count"] == 24 and abs(result["loss"] / 24 - math.log(50)) < 1e-14


@pytest.mark.parametrize("which", ["inputs", "targets"])
@pytest.mark.parametrize("wrong", [-1, 50, 2**31 + 3])
def test_a_word_outside_the_vocabulary_is_named(which, wrong):
    model = tiny()
    inputs, targets = words(model)
    batch = Batch(inputs, targets)
    getattr(batch, which)[2, 1] = wrong
    with pytest.raises(ValueError, match=f"{which[:-1]} token {wrong} is outside the vocabulary of 50"):
        model.rows_needed(batch)


def test_wrong_shapes_and_sizes_are_refused():
    model, dense, tables, inputs, targets = whole_of()
    with pytest.raises(ValueError, match="time, streams"):
        model.rows_needed(Batch(inputs, targets[1:]))
    for size, value in (("samples", 51), ("keep", 0), ("clipped", "none")):
        with pytest.raises(ValueError, match=f"{size}={value!r}"):
            tiny(**{size: value})
    state = {"lstm0/c": np.zeros((3, 12)), "lstm0/h": np.zeros((3, 6))}
    with pytest.raises(ValueError, match="number of streams"):
        step(model, dense, tables, Batch(inputs, targets, state=state))


def test_it_learns_a_sequence_far_below_its_unigram_entropy():
    """Words follow each other in a fixed cycle: no entropy for who remembers one word, log(10) for who does not."""
    model = tiny(vocabulary=10, samples=5, keep=1.0, dtype="float32")
    dense, tables = values(model)
    text = np.tile(np.random.default_rng(0).permutation(10), 100)
    streams = np.stack([text[7 * s:7 * s + 160] for s in range(4)], axis=1)
    state = {}
    for n in range(200):
        start = n % 15 * 10
        batch = Batch(streams[start:start + 10], streams[start + 1:start + 11], normaliser=40.0, key=n, state=state)
        needed = model.rows_needed(batch)
        _, gradients = step(model, dense, tables, batch)
        for name, value in dense.items():
            value -= 1.0 * gradients[name]
        for name in needed:
            tables[name][gradients[name].ids] -= 1.0 * gradients[name].rows
    held_out = dataclasses.replace(batch, inputs=streams[:20], targets=streams[1:21], state={})
    result = model.evaluate(dense, tables, held_out)
    assert result["loss"] / result["count"] < 0.2 * math.log(10)


# -- gradients, by central differences in float64 ----------------------------------------------------------------------
def window(model, time=5, streams=3, seed=0, padding=False, state=False):
    """Return a batch of random words; with a ragged tail and a hole, and with a random carried state, on request."""
    random = np.random.default_rng(seed)
    inputs, targets = random.integers(0, model.vocabulary, (2, time, streams))
    batch = Batch(inputs, targets, normaliser=7.0, key=seed + 1)
    if padding:
        batch.weights = np.ones((time, streams), np.float32)
        batch.weights[-2:, 0] = 0
        batch.weights[1, 1] = 0
    if state:
        for layer in model.layers:
            batch.state[f"{layer}/c"] = random.normal(size=(streams, model.hidden))
            batch.state[f"{layer}/h"] = random.normal(size=(streams, model.width))
    return batch


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("keep", [1.0, 0.8])
@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.thorough("True-True")
def test_gradients(layers, keep, padding, state):
    model = tiny(layers=layers, keep=keep)
    check_gradients(model, window(model, padding=padding, state=state))


@pytest.mark.parametrize("time, streams", [(1, 1), (1, 4), (7, 1)])
def test_gradients_of_odd_windows(time, streams):
    model = tiny(keep=0.7)
    check_gradients(model, window(model, time, streams))


def test_gradients_without_projection():
    model = tiny(projection=None)
    assert {v.name for v in model.variables} == {"embedding", "lstm0/kernel", "lstm0/bias", "softmax_weight",
                                                 "softmax_bias"}
    check_gradients(model, window(model))


def test_gradients_when_every_word_is_a_candidate():
    model = tiny(vocabulary=16, samples=16)
    check_gradients(model, window(model))


@pytest.mark.parametrize("name", ["embedding", "lstm0/kernel", "lstm0/bias", "lstm0/projection", "softmax_weight",
                                  "softmax_bias"])
def test_a_planted_error_is_named(name):
    class Wrong(LanguageModel):
        def loss_and_gradients(self, dense, rows, batch):
            loss, gradients = super().loss_and_gradients(dense, rows, batch)
            array = getattr(gradients[name], "rows", gradients[name])
            array *= 1.001
            return loss, gradients

    model = Wrong(**{**PRESETS["tiny"], "dtype": "float64"})
    with pytest.raises(GradientError, match=f"'{name}'"):
        check_gradients(model, window(model))
