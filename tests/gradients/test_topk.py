"""Top-k picks what the plain codec picks; what it leaves out is what it was given, less what it sends, to the bit."""

import numpy as np
import pytest

from models import Variable
from refimpl.gradients import ElementTree, Node
from refimpl.gradients.codecs import codec_of
from refimpl.plain.sparse_codecs import TopK

WEIGHT = Variable("weight", (30, 7))


@pytest.mark.parametrize("ratio", [0.001, 0.01, 0.1, 0.5, 0.999, 1.0])
def test_places_are_those_of_the_plain_codec(ratio):
    codec, rng = codec_of(f"topk:{ratio}"), np.random.default_rng(0)
    for n in (0, 1, 2, 50, 333):
        k = codec.count(n)
        assert min(n, 1) <= k <= n and k - 1 < ratio * n or n == 0
        for values in (rng.standard_normal(n), rng.integers(-2, 3, n), np.zeros(n)):  # many are equal, or all
            values = values.astype(np.float32)
            places = codec.places(values)
            assert places.dtype == np.int64 and len(places) == k
            assert np.array_equal(places, TopK(n, k).chosen(values, None))


def test_nothing_is_lost():
    tree, rng = ElementTree([WEIGHT], codec_of("topk:0.05"), [0]), np.random.default_rng(1)
    for step in range(4):
        before, gradient = tree.left_out["weight", 0].copy(), rng.standard_normal((30, 7)).astype(np.float32)
        tree.push(0, {"weight": gradient} if step != 2 else None)  # a microbatch without examples sends what waits
        ((node, sent),) = tree.take()["weight"]
        whole = np.zeros(210, np.float32)
        whole[sent.ids] = sent.rows[:, 0]
        given = before + gradient if step != 2 else before
        assert node == Node(0, 0) and len(sent) == 11
        assert (whole.reshape(30, 7) + tree.left_out["weight", 0]).tobytes() == given.tobytes()


@pytest.mark.parametrize("text", ["topk:0", "topk:-1", "topk:1.5", "topk:nan", "topk:many", "topk:"])
def test_a_ratio_that_means_nothing_is_refused(text):
    with pytest.raises(ValueError, match="give a ratio above 0 and up to 1, e.g. topk:0.01"):
        codec_of(text)
