"""Each target exactly once per epoch, for any cutting; nothing depends on the order of calls."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.data import Data, Examples, TokenStreams

SIZES = dict(microbatches=st.integers(1, 9), streams=st.integers(1, 5), window=st.integers(1, 7))


def one_epoch(data):
    """Yield (step, index, batch) for every microbatch of the first epoch."""
    for step in range(data.steps_per_epoch):
        for index in range(data.microbatches):
            if (batch := data.microbatch(step, index)) is not None:
                yield step, index, batch


def counted_pairs(batches):
    """Return how often each (input, target) pair is counted: weight 1, or no weights."""
    pairs = Counter()
    for batch in batches:
        counted = np.ones(batch.targets.shape, bool) if batch.weights is None else batch.weights > 0
        pairs.update(zip(batch.inputs[counted].tolist(), batch.targets[counted].tolist()))
    return pairs


def is_partition(data, length):
    """Return True if one epoch counts each pair (i, i+1) of the text 0 … length-1 exactly once."""
    return counted_pairs(batch for *_, batch in one_epoch(data)) == Counter((i, i + 1) for i in range(length - 1))


@settings(max_examples=150, deadline=None)
@given(length=st.integers(0, 90), epoch=st.integers(0, 3), **SIZES)
def test_stream_batches_are_well_formed_and_count_each_pair_once(length, epoch, microbatches, streams, window):
    data = TokenStreams(np.arange(length, dtype=np.int32), microbatches, streams, window)
    assert is_partition(data, length)
    lengths = [data.length(i) for i in range(microbatches * streams)]
    assert max(lengths) - min(lengths) <= 1 and sum(lengths) == max(length - 1, 0)
    for step in range(epoch * data.steps_per_epoch, (epoch + 1) * data.steps_per_epoch):
        assert data.starts_epoch(step) == (step == epoch * data.steps_per_epoch)
        batches = [data.microbatch(step, index) for index in range(microbatches)]
        counted = 0
        for batch in (b for b in batches if b is not None):
            assert batch.inputs.shape == batch.targets.shape and batch.inputs.shape[1] == streams
            assert 1 <= len(batch.inputs) <= window
            assert batch.inputs.dtype == batch.targets.dtype == np.int64
            np.testing.assert_array_equal(batch.targets, batch.inputs + 1)
            assert batch.normaliser == data.examples(step)
            if batch.weights is None:
                counted += batch.targets.size
            else:
                assert batch.weights.dtype == np.float32 and set(np.unique(batch.weights)) == {0, 1}
                assert set(batch.inputs[batch.weights == 0]) <= set(batch.inputs[batch.weights == 1])
                counted += int(batch.weights.sum())
        assert counted == data.examples(step) > 0


def test_a_stream_continues_from_window_to_window():
    data = TokenStreams(np.arange(1000), 3, 4, 7)
    for index in range(3):
        windows = [data.microbatch(step, index) for step in range(data.steps_per_epoch)]
        for column in range(4):
            whole = np.concatenate([w.inputs[:, column] for w in windows[:-1]])
            np.testing.assert_array_equal(np.diff(whole), 1)


def test_streams_repeat_every_epoch_and_differ_within():
    data = TokenStreams(np.arange(100), 2, 2, 5)
    first, again = data.microbatch(1, 1), data.microbatch(1 + data.steps_per_epoch, 1)
    np.testing.assert_array_equal(first.inputs, again.inputs)
    assert not np.array_equal(first.inputs, data.microbatch(2, 1).inputs)


def test_padding_by_hand():
    # 6 pairs in 4 streams: 0-1, 2-3, 4, 5. Window 2: microbatch 0 is full; 1 has one step.
    data = TokenStreams(np.arange(7), 2, 2, 2)
    assert data.steps_per_epoch == 1 and data.examples(0) == 6
    np.testing.assert_array_equal(data.microbatch(0, 0).inputs, [[0, 2], [1, 3]])
    np.testing.assert_array_equal(data.microbatch(0, 1).inputs, [[4, 5]])
    # 5 pairs: 0-1, 2, 3, 4. The second stream ends first; its padding repeats the first stream's pair.
    batch = TokenStreams(np.arange(6), 2, 2, 2).microbatch(0, 0)
    np.testing.assert_array_equal(batch.inputs, [[0, 2], [1, 1]])
    np.testing.assert_array_equal(batch.targets, [[1, 3], [2, 2]])
    np.testing.assert_array_equal(batch.weights, [[1, 1], [1, 0]])


@pytest.mark.parametrize("length", [0, 1])
def test_no_pairs_no_steps(length):
    data = TokenStreams(np.arange(length), 4, 2, 3)
    assert data.steps_per_epoch == 0 and list(one_epoch(data)) == []
    with pytest.raises(ValueError, match="no examples"):
        data.microbatch(0, 0)


def test_microbatches_without_targets_are_none():
    data = TokenStreams(np.arange(3), 4, 2, 3)
    assert [data.microbatch(0, index) is None for index in range(4)] == [False, True, True, True]
    assert data.microbatch(0, 0).inputs.tolist() == [[0, 1]]


def test_ids_above_two_to_the_31_survive():
    tokens = np.array([2**31 + 5, 2**40, 3, 2**62], np.int64)
    batch = TokenStreams(tokens, 1, 1, 8).microbatch(0, 0)
    assert batch.inputs[:, 0].tolist() == tokens[:-1].tolist() and batch.targets[:, 0].tolist() == tokens[1:].tolist()


class LosesTheTail(TokenStreams):
    """The planted bug: whole windows only (docs/bugs.md, 28)."""

    @property
    def steps_per_epoch(self):
        return self.length(0) // self.window


class CountsPadding(TokenStreams):
    """The planted bug: padding counts as a target."""

    def microbatch(self, step, index):
        batch = super().microbatch(step, index)
        if batch is not None:
            batch.weights = None
        return batch


@pytest.mark.parametrize("broken", [LosesTheTail, CountsPadding])
def test_the_check_fails_for_planted_bugs(broken):
    assert is_partition(TokenStreams(np.arange(42), 2, 4, 4), 42)
    assert not is_partition(broken(np.arange(42), 2, 4, 4), 42)


@settings(max_examples=150, deadline=None)
@given(count=st.integers(0, 90), microbatches=st.integers(1, 9), size=st.integers(1, 5), epoch=st.integers(0, 3),
       shuffle=st.booleans())
def test_examples_are_used_exactly_once(count, microbatches, size, epoch, shuffle):
    data = Examples(np.arange(count) * 2, np.arange(count), microbatches, size, seed=7, shuffle=shuffle)
    seen = []
    for step in range(epoch * data.steps_per_epoch, (epoch + 1) * data.steps_per_epoch):
        assert data.starts_epoch(step) == (step == epoch * data.steps_per_epoch)
        batches = [data.microbatch(step, index) for index in range(microbatches)]
        present = [b for b in batches if b is not None]
        assert batches[: len(present)] == present  # only the last ones may be missing
        assert all(len(b.targets) == size for b in present[:-1]) and 1 <= len(present[-1].targets) <= size
        for batch in present:
            np.testing.assert_array_equal(batch.inputs, batch.targets * 2)
            assert batch.weights is None and batch.normaliser == data.examples(step)
            seen += batch.targets.tolist()
        assert sum(len(b.targets) for b in present) == data.examples(step)
    assert sorted(seen) == list(range(count))
    assert shuffle or seen == list(range(count))


def test_order_depends_on_seed_and_epoch_and_on_no_cutting():
    def order(microbatches, size, seed=1, epoch=0):
        data = Examples(np.arange(60), np.arange(60), microbatches, size, seed)
        steps = range(epoch * data.steps_per_epoch, (epoch + 1) * data.steps_per_epoch)
        return [t for s in steps for v in range(microbatches) for t in data.microbatch(s, v).targets.tolist()]

    assert order(1, 12) == order(4, 3) == order(2, 6) == order(12, 5)
    assert order(4, 3) != order(4, 3, epoch=1) != order(4, 3, epoch=2)
    assert order(4, 3) != order(4, 3, seed=2)


def test_order_of_calls_does_not_matter():
    data, other = (Examples(np.arange(50), np.arange(50), 3, 4, seed=3) for _ in range(2))
    places = [(step, index) for step in range(3 * data.steps_per_epoch) for index in range(3)]
    forward = {place: data.microbatch(*place) for place in places}
    for place in reversed(places):
        batch = other.microbatch(*place)
        assert (batch is None) == (forward[place] is None)
        if batch is not None:
            np.testing.assert_array_equal(batch.targets, forward[place].targets)


def test_order_is_known():
    # Written down, so that another version of NumPy or another machine cannot change it unnoticed.
    ten = Examples(np.arange(10), np.arange(10), microbatches=1, size=10, seed=0)
    assert ten.microbatch(0, 0).targets.tolist() == [7, 9, 5, 1, 4, 2, 8, 0, 6, 3]


def test_unshuffled_batches_are_views_and_any_arrays_will_do():
    inputs = np.zeros((10, 2, 3), np.float32)
    batch = Examples(inputs, np.arange(10.0), 2, 3, shuffle=False).microbatch(1, 0)
    assert batch.inputs.base is inputs and batch.inputs.shape == (3, 2, 3) and batch.targets.dtype == np.float64


@pytest.mark.parametrize("data", [TokenStreams(np.arange(50), 2, 3, 4), Examples(np.arange(9), np.arange(9), 2, 3)])
def test_data_protocol_and_places_that_do_not_exist(data):
    assert isinstance(data, Data)
    for step, index in ((-1, 0), (0, -1), (0, 2)):
        with pytest.raises(ValueError, match="must"):
            data.microbatch(step, index)


@pytest.mark.parametrize("kind, arguments, culprit", [
    (TokenStreams, (np.arange(5), 0, 1, 1), "microbatches"), (TokenStreams, (np.arange(5), 1, -1, 1), "streams"),
    (TokenStreams, (np.arange(5), 1, 1, 2.0), "window"), (TokenStreams, (np.zeros((2, 2), int), 1, 1, 1), "tokens"),
    (TokenStreams, (np.zeros(5), 1, 1, 1), "float64"), (Examples, (np.arange(5), np.arange(5), 1, 0), "size"),
    (Examples, (np.arange(5), np.arange(4), 1, 1), "differ")])
def test_arguments_are_refused(kind, arguments, culprit):
    with pytest.raises(ValueError, match=culprit):
        kind(*arguments)


def test_fingerprints_name_data_and_cutting():
    tokens, images = np.arange(50), np.arange(60).reshape(10, 6)
    streams = [TokenStreams(*cut) for cut in (
        (tokens, 2, 3, 4), (tokens, 3, 2, 4), (tokens[:-1], 2, 3, 4), (tokens + 1, 2, 3, 4),
        (tokens.astype(np.int32), 2, 3, 4), (tokens, 2, 3, 5))]
    examples = [Examples(*arrays, 2, 3, **more) for arrays, more in (
        ((images, tokens[:10]), {}), ((images.reshape(10, 3, 2), tokens[:10]), {}), ((images, tokens[1:11]), {}),
        ((images, tokens[:10]), {"seed": 1}), ((images, tokens[:10]), {"shuffle": False}))]
    fingerprints = [data.fingerprint for data in streams + examples]
    assert len(set(fingerprints)) == len(fingerprints)
    assert TokenStreams(tokens.copy(), 2, 3, 4).fingerprint == fingerprints[0]
