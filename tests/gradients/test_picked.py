"""Codecs pick what the plain ones pick; what they leave out is what they were given, less what they send, to the bit."""

import numpy as np
import pytest

from models import Variable
from refimpl.gradients import ElementTree, Node
from refimpl.gradients.codecs import codec_of
from refimpl.plain.encoding.residuals import MomentumCorrection, clipped
from refimpl.plain.encoding.sparse_codecs import AdaComp, Threshold, TopK

WEIGHT = Variable("weight", (30, 7))


@pytest.mark.parametrize("ratio", [0.001, 0.01, 0.1, 0.5, 0.999, 1.0])
def test_places_are_those_of_the_plain_codec(ratio):
    codec, rng = codec_of(f"topk:{ratio}"), np.random.default_rng(0)
    for n in (0, 1, 2, 50, 333):
        k = codec.count(n)
        assert min(n, 1) <= k <= n and k - 1 < ratio * n or n == 0
        for values in (rng.standard_normal(n), rng.integers(-2, 3, n), np.zeros(n)):  # many are equal, or all
            values = values.astype(np.float32)
            places = codec.places(values, None)
            assert places.dtype == np.int64 and len(places) == k
            assert np.array_equal(places, TopK(n, k).chosen(values, None))


@pytest.mark.parametrize("text, plain", [("threshold:1.5", lambda n: Threshold(n, 1.5)), ("adacomp:50", AdaComp),
                                         ("adacomp:7", lambda n: AdaComp(n, 7))])
def test_elements_are_those_of_the_plain_codec(text, plain):
    codec, rng = codec_of(text), np.random.default_rng(0)
    for n in (1, 2, 50, 333):
        for values, gradient in (rng.standard_normal((2, n)), rng.integers(-2, 3, (2, n)), np.zeros((2, n))):
            values, gradient = values.astype(np.float32), gradient.astype(np.float32)
            places = codec.places(values, gradient)
            assert places.dtype == np.int64 and np.array_equal(places, plain(n).chosen(values, gradient))
            assert codec.sent(values[places]).tobytes() == plain(n).values(values[places]).tobytes()
            assert len(places) <= codec.count(n)
    assert len(codec.places(np.zeros(0, np.float32), np.zeros(0, np.float32))) == 0


@pytest.mark.parametrize("text", ["topk:0.05", "threshold:1.5", "adacomp:10"])
def test_nothing_is_lost(text):
    tree, rng = ElementTree([WEIGHT], codec_of(text), [0]), np.random.default_rng(1)
    for step in range(4):
        before, gradient = tree.left_out["weight", 0].copy(), rng.standard_normal((30, 7)).astype(np.float32)
        tree.push(0, {"weight": gradient} if step != 2 else None)  # a microbatch without examples sends what waits
        ((node, sent),) = tree.take()["weight"]
        whole = np.zeros(210, np.float32)
        whole[sent.ids] = sent.rows[:, 0]
        given = before + gradient if step != 2 else before
        assert node == Node(0, 0) and (len(sent) == 11 if text == "topk:0.05" else 0 < len(sent) < 210)
        left_out = tree.left_out["weight", 0]
        assert (given - whole.reshape(30, 7)).tobytes() == left_out.tobytes()
        assert text == "threshold:1.5" or (whole.reshape(30, 7) + left_out).tobytes() == given.tobytes()


@pytest.mark.parametrize("norm", [None, 20.0, np.inf])
def test_momentum_is_corrected_as_in_plain_and_the_ratio_warms_up(norm):
    """norm 20 over √3 clips about every second gradient of norm √210 or so; None and inf clip none."""
    step, plain, seen, rng = [0], MomentumCorrection(), [], np.random.default_rng(2)
    tree = ElementTree([WEIGHT], codec_of("dgc:0.05:2" + f":{norm}" * (norm == 20)), [0], lambda: step[0], 3)
    for step[0] in range(7):
        gradient = None if step[0] == 3 else (rng.uniform(0.5, 1.5) * rng.standard_normal((30, 7))).astype(np.float32)
        tree.push(0, None if gradient is None else {"weight": gradient})
        ((_, sent),) = tree.take()["weight"]
        k = [53, 53, 14, 14, 11, 11, 11][step[0]]  # 1/4, 1/16 and 0.05 of 210
        whole = np.zeros(210, np.float32) if gradient is None else gradient.ravel()
        given = whole if norm is None else clipped(whole, norm, 3)
        seen.append((given != whole).any())
        places, values = plain.encode(TopK(210, k), "w", 0, given)
        assert np.array_equal(sent.ids, places) and sent.rows[:, 0].tobytes() == values.tobytes()
        kept = np.stack([plain.kept["w", 0], plain.velocity["w", 0]])
        assert tree.left_out["weight", 0].tobytes() == kept.tobytes()
    assert (0 < sum(seen) < 6) == (norm == 20)


RATIO = "give a ratio above 0 and up to 1, e.g. topk:0.01"


@pytest.mark.parametrize("text, words", [
    *((f"topk:{ratio}", RATIO) for ratio in ("0", "-1", "1.5", "nan", "many", "")),
    ("dgc:0", "give a ratio above 0"), ("dgc:", "e.g. dgc:0.001"), ("dgc:0.1:", "a number of steps after the ratio"),
    ("dgc:0.1:-1", "a number of"), ("dgc:0.1:5:0", "give a norm above 0"), ("dgc:0.1:5:inf", "give a norm"),
    ("dgc:0.1:5:", "e.g. dgc:0.001:500:1.0"), ("threshold:0", "give a step above 0"), ("threshold:inf", "give a step"),
    ("threshold:x", "give a step"), ("adacomp:0", "give the elements of a bin"), ("adacomp:-3", "give the elements"),
    ("powersgd:0", "give a rank from 1"), ("powersgd:65", "to 64"), ("powersgd:", "e.g. powersgd:2"),
    ("qsgd:0", "give 1 to 127 levels, e.g. qsgd:7"), ("qsgd:128", "give 1 to 127"), ("qsgd:many", "give 1 to 127"),
    ("onebit:2", "onebit has no parameter '2'"), ("terngrad:2.5", "terngrad has no parameter '2.5'")])
def test_a_parameter_that_means_nothing_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        codec_of(text)


@pytest.mark.parametrize("text", ["topk:0.05", "threshold:1.5", "adacomp:10", "dgc:0.05", "dgc:0.05:1:0.1"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_sent(text, bad):
    tree, gradient = ElementTree([WEIGHT], codec_of(text), [0]), np.ones((30, 7), np.float32)
    gradient[3, 2] = bad
    tree.push(0, {"weight": gradient})
    ((_, sent),) = tree.take()["weight"]
    assert sent.ids.tolist() == [23] and not np.isfinite(sent.rows).any()
