"""The codecs of plain/: bytes and values by closed forms, expectations by enumeration, one sum on any ranks."""

from fractions import Fraction

import numpy as np
import pytest

from refimpl.plain.adding.tree import sum_on
from refimpl.plain.encoding import codecs, level_codecs, power_sgd, residuals, sparse_codecs
from refimpl.plain.encoding.codec import bytes_of
from refimpl.plain.encoding.codecs import Integers, Rounded
from refimpl.plain.encoding.level_codecs import QSGD, OneBit, TernGrad
from refimpl.plain.encoding.power_sgd import compressed, first_q, orthonormal
from refimpl.plain.encoding.residuals import MomentumCorrection, Residuals, clipped, dgc_ratio
from refimpl.plain.encoding.sparse_codecs import AdaComp, Threshold, TopK

N, UNITS, RANKS = 101, 7, (1, 2, 3, 5, 7)
DRAWN = np.random.default_rng(1).standard_normal((UNITS, N)).astype(np.float32)
NOTHING = np.zeros(N, np.float32)
CODECS = {  # name: (codec, bytes of a microbatch's message)
    "bf16": (Rounded("bf16"), 2 * N), "fp16": (Rounded("fp16"), 2 * N),
    "int16": (Integers(16, UNITS, np.abs(DRAWN).max()), 2 * N), "int8": (Integers(8, UNITS, np.abs(DRAWN).max()), N),
    "top": (TopK(N, 9), 8 * 9), "1 bit": (OneBit(N), 13 + 8),
    "qsgd 1": (QSGD(N, 1), 26 + 4), "qsgd 7": (QSGD(N, 7), 51 + 4), "qsgd 8": (QSGD(N, 8), 64 + 4),
    "terngrad": (TernGrad(N), 26 + 4), "threshold": (Threshold(N, 1.5), None), "adacomp": (AdaComp(N, 10), None),
}


def messages_of(codec, gradients):
    return [codec.encode(g, np.zeros_like(g), np.random.default_rng(v).random(len(g))) for v, g in enumerate(gradients)]


@pytest.mark.parametrize("name", CODECS)
def test_bytes_are_the_formula_and_the_sum_has_the_same_bits_on_any_number_of_ranks(name):
    codec, expected = CODECS[name]
    messages = messages_of(codec, DRAWN)
    if expected is None:
        expected = 8 * len(messages[0][0])
        assert 0 < len(messages[0][0]) < N
    assert bytes_of(messages[0]) == expected
    assert len({codec.decode(sum_on(ranks, messages, codec.merge)).tobytes() for ranks in RANKS}) == 1


def test_a_codec_by_rank_gives_each_number_of_ranks_another_answer():
    """What the unit is for: the same codec, applied to the sum of a rank's gradients."""
    def encoded_by_rank(ranks):
        sums = [DRAWN[rank * UNITS // ranks:(rank + 1) * UNITS // ranks].sum(axis=0) for rank in range(ranks)]
        return sum(OneBit(N).decode(message) for message in messages_of(OneBit(N), sums))

    assert len({encoded_by_rank(ranks).tobytes() for ranks in RANKS}) == len(RANKS)


def nearest(value, digits):
    """Return the float with so many binary digits that is nearest, of two the even one, by exact arithmetic."""
    if not value:
        return 0.0
    unit = Fraction(2) ** (int(np.frexp(value)[1]) - digits)
    return float(round(Fraction(float(value)) / unit) * unit)  # round: of two equally near ones the even


@pytest.mark.parametrize("kind, digits", [("bf16", 8), ("fp16", 11)])
def test_rounding_is_to_nearest_even(kind, digits):
    ties = (1 + np.arange(-9, 9) * 2.0 ** -digits).astype(np.float32)
    values = np.concatenate([ties, -ties, DRAWN[0], [0, 2.0**15]]).astype(np.float32)
    codec = Rounded(kind)
    assert codec.decode(codec.encode(values, 0, None)).tolist() == [nearest(v, digits) for v in values]


def test_rounding_happens_at_every_node():
    codec = Rounded("bf16")
    parts = [np.array([x], np.float32) for x in (256, 1, 1, 1)]  # 257 rounds to 256, and 256 + 2 does not
    assert codec.decode(sum_on(1, messages_of(codec, parts), codec.merge)) == 258
    assert sum(parts)[0] == 259


def test_integers_are_the_same_on_a_ring_and_fit_when_all_are_largest():
    codec, _ = CODECS["int16"]
    messages = messages_of(codec, DRAWN)
    backwards = messages[-1]
    for message in messages[-2::-1]:
        backwards = codec.merge(backwards, message)
    assert backwards[0].tobytes() == sum_on(1, messages, codec.merge)[0].tobytes()
    for largest in (1.0, 0.3, np.nextafter(np.float32(0.25), np.float32(1)), 511.0, 1e-30):
        for sign in (1, -1):
            gradients = np.full((UNITS, N), sign * largest, np.float32)
            codec = Integers(16, UNITS, np.abs(gradients).max())
            total = codec.decode(sum_on(3, messages_of(codec, gradients), codec.merge))
            assert np.abs(total / (UNITS * gradients[0]) - 1).max() <= 1 / 2047
    assert not Integers(16, UNITS, 0.0).decode((np.zeros(3, np.int16),)).any()


def test_integers_that_cannot_hold_the_sum_are_refused():
    with pytest.raises(ValueError, match="200 microbatches do not fit into sums of 8 bits: give more bits"):
        Integers(8, 200, 1.0)
    assert Integers(8, 64, 1.0).exponent == 0  # sums of 64 ones


@pytest.mark.parametrize("codec", [Integers(8, UNITS, 0.8), QSGD(5, 4), TernGrad(5, None)],
                         ids=lambda codec: type(codec).__name__)
def test_the_expectation_over_all_random_numbers_is_the_gradient(codec):
    """Enumerated: with u = (i + ½) / 320 for all i the mean misses it by at most half a number of this grid."""
    gradient, values = np.array([0.8, -0.2, 0, 0.4, -0.4], np.float32), []
    for i in range(320):
        drawn = np.full(len(gradient), (i + 0.5) / 320)
        values.append(codec.decode(codec.encode(gradient, np.zeros_like(gradient), drawn)).astype(np.float64))
    between_levels = np.abs(np.diff(values, axis=0)).max()
    assert between_levels > 0
    assert np.abs(np.mean(values, axis=0) - gradient).max() <= between_levels / 320


@pytest.mark.parametrize("s", [1, 4, 7])
def test_the_variance_of_qsgd_is_within_its_bound(s):
    gradient, spread = DRAWN[0], []
    for i in range(64):
        codec, drawn = QSGD(N, s), np.full(N, (i + 0.5) / 64)
        spread.append(np.sum((codec.decode(codec.encode(gradient, NOTHING, drawn)).astype(np.float64) - gradient) ** 2))
    assert 0 < np.mean(spread) <= min(N / s**2, np.sqrt(N) / s) * np.sum(gradient.astype(np.float64) ** 2)


def test_a_gradient_of_zeros_stays_one():
    for codec, _ in CODECS.values():
        assert not codec.decode(codec.encode(NOTHING, NOTHING, np.full(N, 0.5))).any()


def test_one_bit_sends_the_mean_of_each_sign():
    codec = OneBit(5)
    gradient, residual = np.array([1, -2, 0, 4, -4], np.float32), np.array([1, 0, 1, 0, -1], np.float32)
    assert codec.decode(codec.encode(gradient, residual, 0)).tolist() == [np.float32(7 / 3), -3.5] + [
        np.float32(7 / 3)] * 2 + [-3.5]


def test_terngrad_cuts_what_is_far_out():
    gradient = np.array([1, -1] * 50 + [100], np.float32)
    assert CODECS["terngrad"][0].encode(gradient, NOTHING, 0)[1][0] == np.float32(2.5 * gradient.std(dtype=np.float64))
    assert TernGrad(N, None).encode(gradient, NOTHING, 0)[1][0] == 100


def test_sparse_codecs_choose_as_they_say():
    v = np.array([3, -3, 1, 0, -2, 3], np.float32)
    assert TopK(6, 2).encode(v, 0 * v, 0)[0].tolist() == [0, 1]  # of three equal ones the first two
    places, values = Threshold(6, 2).encode(v, 0 * v, 0)
    assert places.tolist() == [0, 1, 5] and values.tolist() == [2, -2, 2]
    gradient, residual = np.array([1, 1, 0, 2, -2, 0], np.float32), np.array([0, 3, 2, 0, 0, 0], np.float32)
    assert AdaComp(6, 3).encode(gradient, residual, 0)[0].tolist() == [1, 3, 4]  # of bins (1, 4, 2) and (2, -2, 0)


def test_merged_places_are_the_union():
    codec = TopK(4, 2)
    sums = codec.merge((np.array([0, 2], np.int32), np.array([1, 2], np.float32)),
                       (np.array([2, 3], np.int32), np.array([4, 8], np.float32)))
    assert bytes_of(sums) == 8 * 3 and codec.decode(sums).tolist() == [1, 0, 6, 8]


@pytest.mark.parametrize("codec", [TopK(N, 9), AdaComp(N, 10), Threshold(N, 1.0), OneBit(N)],
                         ids=lambda codec: type(codec).__name__)
def test_nothing_is_lost_gradient_and_residual_are_what_is_sent_and_the_next_residual(codec):
    """To the bit: of binary fractions, so that the subtraction is exact for every codec."""
    kept, before = Residuals(), NOTHING
    for step in range(5):
        gradient = np.round(DRAWN[step] * 64) / np.float32(64)
        sent = codec.decode(kept.encode(codec, "w", 0, gradient, 0))
        if isinstance(codec, OneBit):  # whose means are no fractions: then up to one rounding of each element
            assert np.abs(sent + kept.kept["w", 0] - (gradient + before)).max() <= np.spacing(np.float32(8))
        else:
            assert (sent + kept.kept["w", 0]).tobytes() == (gradient + before).tobytes()
        before = kept.kept["w", 0]
    assert before.any()


def test_residuals_belong_to_variable_and_unit():
    kept = Residuals()
    for name in ("w", "b"):
        for unit in range(2):
            kept.encode(TopK(N, 9), name, unit, DRAWN[unit], 0)
    assert set(kept.kept) == {("w", 0), ("w", 1), ("b", 0), ("b", 1)}
    assert (kept.kept["w", 0] != kept.kept["w", 1]).any()
    kept.encode(Rounded("bf16"), "unbiased", 0, DRAWN[0], 0)
    assert ("unbiased", 0) not in kept.kept


def test_dgc_by_hand():
    dgc, codec = MomentumCorrection(0.5), TopK(2, 1)
    gradient = np.array([4, 1], np.float32)
    told = [codec.decode(dgc.encode(codec, "w", 0, gradient)).tolist() for _ in range(4)]
    # element 1: u = 1, 1.5, 1.75, 1.875 and v = 1, 2.5, 4.25, 6.125: it is sent when it has overtaken element 0
    assert told == [[4, 0], [4, 0], [0, 4.25], [10, 0]]
    assert dgc.kept["w", 0].tolist() == [0, 1] and dgc.velocity["w", 0].tolist() == [0, 1]


def test_dgc_clips_a_unit_to_its_share_and_sends_less_from_stage_to_stage():
    gradient = np.array([3, 4], np.float32)
    assert clipped(gradient, 10.0, 4).tolist() == [3, 4]
    assert clipped(gradient, 5.0, 4).tolist() == [1.5, 2]
    assert [dgc_ratio(0.01, step, 2) for step in range(8)] == [1 / 4] * 2 + [1 / 16] * 2 + [1 / 64] * 2 + [0.01] * 2
    assert dgc_ratio(0.01, 0, 0) == 0.01


def test_power_sgd_gives_back_a_matrix_of_its_rank_and_keeps_the_rest():
    draw = np.random.default_rng(2)
    left, right = draw.standard_normal((30, 3)), draw.standard_normal((3, 20))
    matrices = [(left @ np.diag(draw.uniform(0.5, 1, 3)) @ right).astype(np.float32) for _ in range(UNITS)]
    whole = np.sum(matrices, axis=0, dtype=np.float64)
    for rank in (3, 4, 2):
        decoded, q, kept = compressed(matrices, first_q(draw.uniform(size=20 * rank), rank), lambda parts: sum_on(2, parts, np.add))
        missed = np.linalg.norm(decoded - whole) / np.linalg.norm(whole)
        # rounding: 30 + 20 terms a product, twice, in float32; the condition of left and right is below 10
        assert (missed < 1000 * np.finfo(np.float32).eps) == (rank >= 3), missed
        assert q.shape == (20, rank)
        assert np.abs(np.sum(kept, axis=0, dtype=np.float64) + decoded - whole).max() < 1e-4 * np.abs(whole).max()


def test_an_orthonormal_basis_of_dependent_columns_has_no_noise_in_it():
    p = orthonormal(np.array([[3, 6, 0], [4, 8, 0], [0, 0, 0]], np.float32))
    assert p.tolist() == [[np.float32(0.6), 0, 0], [np.float32(0.8), 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("module", [codecs, sparse_codecs, level_codecs, power_sgd, residuals],
                         ids=lambda module: module.__name__)
def test_each_file_shows_one_sum(module, capsys):
    module.main()
    lines = capsys.readouterr().out.splitlines()
    if module is power_sgd:
        assert len(lines) == 9 and len({line.partition("step")[2] for line in lines}) == 3
    if module is residuals:
        reached = [float(line.split("distance ")[1].split(",")[0]) for line in lines]
        assert reached[0] < 0.001 and reached[1] > 0.3 and reached[2] < 0.01
