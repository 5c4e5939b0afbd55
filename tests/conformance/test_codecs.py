"""Encoded gradients: what the cases are about, other correct implementations, and mistakes planted in one of these."""

import numpy as np
import pytest

from mutants.groups import encoding
from mutants.run import cases_for
from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.cases import case_named
from refimpl.conformance.cases.codecs import EXACT, task_of
from refimpl.conformance.diagnose import summary
from refimpl.conformance.runner import run_local
from refimpl.conformance.semantics import Semantics
from refimpl.plain.encoding.encoded_steps import EncodedSteps


@encoding
class Backwards(EncodedSteps):
    """Takes its units, and adds them up, from the last to the first."""

    def step(self, gradients, drawn):
        return super().step(dict(reversed(gradients.items())), drawn)

    def mean(self, codec, messages):
        total, *others = messages[::-1] or [None]
        if total is None:
            return super().mean(codec, messages)
        for message in others:
            total = codec.merge(total, message)
        return codec.decode(total) * np.float32(1 / self.task.units)

    def gathered(self, parts):
        return super().gathered(parts)[::-1] if self.task.codec == "powersgd" else super().gathered(parts)


@encoding
class Wide(EncodedSteps):
    """Decodes each message, and adds up in float64."""

    def mean(self, codec, messages):
        total = sum(codec.decode(message).astype(np.float64) for message in messages) / self.task.units
        return np.float32(total) * np.ones(self.task.size, np.float32)


class Own:
    """Some codecs, written from the guide: float32 throughout, argpartition, one flat array of residuals a rank."""

    def __init__(self, world):
        self.world = world

    def describe(self):
        return Semantics(supports=("bf16", "integers", "topk", "onebit"))

    def encode_steps(self, task):
        self.left = {}
        return [self.step(task, gradients, drawn) for gradients, drawn in task.steps]

    def step(self, task, gradients, drawn):
        bad = self.overflow(not np.isfinite(sum(g.sum() for g in gradients.values())))
        answer, total = {"skipped": np.array(bad, np.int64)}, np.zeros(task.size, np.float32)
        scale = self.scale(task, gradients)
        for unit, g in {} if bad else gradients.items():
            v = g + self.left.get(self.key(unit), 0)
            sent, value = getattr(self, task.codec)(task, v, drawn[unit], scale)
            total += value
            answer |= {f"unit {unit} {what}": part for what, part in sent.items()}
            if task.codec in ("topk", "onebit"):
                self.left[self.key(unit)] = v - value
        for unit in gradients:
            answer[f"unit {unit} sent"] = answer.get(f"unit {unit} sent", (np.zeros(0, int), total[:0, None]))
            answer[f"unit {unit} residual"] = np.array(self.left.get(self.key(unit), np.zeros(task.size, np.float32)))
        total = sum(self.world.allgather(total))
        return {**answer, "mean": self.mean(total, task.units, scale) * np.float32(not bad)}

    def mean(self, total, units, scale):
        return total / np.float32(units) / np.float32(scale)

    def key(self, unit):
        return unit

    def overflow(self, mine):
        return max(self.world.allgather(mine))

    def scale(self, task, gradients):
        """The power of two by which integers are larger."""
        if task.codec != "integers":
            return 1
        largest = self.shared(max(np.abs(g).max() for g in gradients.values()))
        return 2.0 ** np.floor(np.log2((2**15 // 2 ** int(np.ceil(np.log2(task.units))) - 1) / largest))

    def shared(self, own):
        return max(self.world.allgather(own))

    def bf16(self, task, v, drawn, scale):
        bits = ((v.view(np.uint32).astype(np.uint64) + 0x7FFF + ((v.view(np.uint32) >> 16) & 1)) >> 16).astype(np.uint16)
        return {"sent": bits}, (bits.astype(np.uint32) << 16).view(np.float32)

    def integers(self, task, v, drawn, scale):
        whole = np.floor(v * np.float32(scale) + drawn.astype(np.float32)).astype(np.int16)
        return {"sent": whole}, whole

    def topk(self, task, v, drawn, scale):
        places = np.argpartition(np.abs(v), -task.number)[-task.number:]
        value = np.zeros_like(v)
        value[places] = v[places]
        return {"sent": (places, v[places, None])}, value

    def onebit(self, task, v, drawn, scale):
        up = v >= 0
        scales = np.array([v[~up].mean(), v[up].mean()], np.float32)
        return {"sent": np.packbits(up), "scales": scales}, scales[up.astype(int)]


class Forgetful(Own):
    left = property(lambda self: {}, lambda self, value: None)


class OfRank(Own):
    def key(self, unit):
        return ()


class OwnScale(Own):
    def shared(self, own):
        return own


class Alone(Own):
    def overflow(self, mine):
        return mine


class WholeMean(Own):
    """Divides integers before it decodes them."""

    def mean(self, total, units, scale):
        return super().mean(total // units, 1, scale) if scale != 1 else super().mean(total, units, scale)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("make", [Reference, Backwards, Wide, Own], ids=lambda make: make.__name__)
@pytest.mark.thorough("-1", "-5")
def test_nobody_is_accused_who_is_right(make, ranks):
    verdicts = run_local(make, ranks, cases_for(ranks, "codec")).verdicts
    assert [v.why for v in verdicts if v.status == "failed"] == []
    assert sum(v.status == "passed" for v in verdicts) == (5 if make is Own else 12)


@pytest.mark.parametrize("make, code", [(Forgetful, "residual-dropped"), (OfRank, "residual-by-rank"),
                                        (OwnScale, "scale-not-shared"), (WholeMean, "integers-divided"),
                                        (Alone, "overflow-skipped-alone")])
def test_a_mistake_in_another_implementation_is_named(make, code):
    for ranks in (2, 3):
        found = [d.code for d, _ in summary(run_local(make, ranks, cases_for(ranks, "codec")).failed)]
        assert found == [code], ranks


def margin(task, v, drawn):
    """Return how far v is from another choice of an element, a sign or a level."""
    number, sizes = task.number, np.abs(v)
    largest, most = np.sort(sizes)[::-1], min(sizes.max(), number * v.std())
    return {"topk": lambda: largest[number - 1] - largest[number], "threshold": lambda: np.abs(sizes - number).min(),
            "onebit": lambda: sizes.min(),
            "qsgd": lambda: np.abs((u := sizes * number / np.linalg.norm(v) + drawn) - np.rint(u)).min(),
            "terngrad": lambda: np.abs(drawn * most - sizes)[sizes < most].min()}.get(task.codec, lambda: 1.0)()


@pytest.mark.parametrize("ranks", [1, 3, 8])
@pytest.mark.parametrize("codec", ["topk", "threshold", "onebit", "qsgd", "terngrad"])
def test_no_choice_is_a_close_one(codec, ranks):
    """Rounding in another order leaves it as it is."""
    seen = []

    class Watched(EncodedSteps):
        def encode(self, codec, unit, gradient, drawn):
            seen.append(margin(self.task, gradient.astype(np.float64) + self.residual(unit), drawn))
            return super().encode(codec, unit, gradient, drawn)

    assert not run_local(encoding(Watched), ranks, [case_named(f"codec/{codec}", ranks)]).failed
    assert len(seen) == 3 * 2 * ranks and min(seen) > 1e-4


def test_what_a_rank_gets():
    case = case_named("codec/powersgd", 3)
    task = task_of(case, 2, [step[2] for step in case.steps])
    assert list(task.steps[0][0]) == [4, 5] and task.units == 6 and task.q.shape == (3, 2) and task.size % 3 == 0
    assert {case.name.partition("/")[2] for case in cases_for(3, "codec") if case.exact} == {*EXACT, "overflow"}
