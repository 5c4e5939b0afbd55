"""Messages of a few levels an element are those of the plain codecs, byte for byte, and what they leave out is kept."""

import numpy as np
import pytest

from kernels.random import key_of, uniform
from models import Variable
from refimpl.gradients import MessageTree
from refimpl.gradients.codecs import codec_of
from refimpl.plain.encoding.codec import bytes_of
from refimpl.plain.encoding.level_codecs import QSGD, OneBit, TernGrad

PLAIN = {"onebit": OneBit, "terngrad": TernGrad, "qsgd:1": lambda n: QSGD(n, 1), "qsgd:7": lambda n: QSGD(n, 7),
         "qsgd:8": lambda n: QSGD(n, 8), "qsgd:127": lambda n: QSGD(n, 127)}


@pytest.mark.parametrize("text", PLAIN)
@pytest.mark.parametrize("n", [1, 7, 8, 1001, 131_075])  # the last is cut several times where norms are added up
def test_messages_and_values_are_those_of_the_plain_codec(text, n):
    codec, plain, rng = codec_of(text), PLAIN[text](n), np.random.default_rng(n)
    for values in (rng.standard_normal(n), rng.integers(-2, 3, n), np.zeros(n), np.full(n, -3.5)):
        values, message = values.astype(np.float32), np.empty(codec.message_bytes(n), np.uint8)
        codec.pack(values, key_of(n), message)
        expected = plain.encode(values, np.float32(0), uniform(key_of(n), n))
        assert message.tobytes() == b"".join(part.tobytes() for part in expected)
        assert len(message) == bytes_of(expected)
        found = codec.unpack(message, n)
        assert found.dtype == np.float32 and found.tobytes() == plain.decode(expected).tobytes()


def test_bytes_are_the_formulas():
    assert [codec_of(text).message_bytes(1001) for text in PLAIN] == [
        126 + 8, 251 + 4, 251 + 4, 501 + 4, 626 + 4, 1001 + 4]


@pytest.mark.parametrize("text", ["onebit", "terngrad", "qsgd:7"])
def test_what_is_left_out_is_what_was_given_less_what_is_sent(text):
    variables, rng = [Variable("weight", (30, 7)), Variable("bias", (9,))], np.random.default_rng(1)
    tree, codec = MessageTree(variables, codec_of(text), [0, 3], lambda name, leaf: key_of(name, leaf)), codec_of(text)
    assert set(tree.left_out) == ({(v.name, leaf) for v in variables for leaf in (0, 3)} if codec.feedback else set())
    for step in range(3):
        before = {at: kept.copy() for at, kept in tree.left_out.items()}
        gradients = {v.name: rng.standard_normal(v.shape).astype(np.float32) for v in variables}
        for leaf in (0, 3):
            tree.push(leaf, gradients if (step, leaf) != (1, 3) else None)  # one without examples sends what waits
        messages = tree.take()
        assert list(messages) == [0, 3] and not tree.take()
        for leaf, packed in messages.items():
            for v, sent in zip(variables, tree.decode(packed)):
                if codec.feedback:
                    given = before[v.name, leaf] + (gradients[v.name] if (step, leaf) != (1, 3) else 0)
                    assert (given - sent.reshape(v.shape)).tobytes() == tree.left_out[v.name, leaf].tobytes()


@pytest.mark.parametrize("text", ["onebit", "terngrad", "qsgd:7"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_not_hidden(text, bad):
    codec, values = codec_of(text), np.array([1, -2, bad, 3], np.float32)
    message = np.empty(codec.message_bytes(4), np.uint8)
    codec.pack(values, 1, message)
    assert not np.isfinite(codec.unpack(message, 4)).all()
