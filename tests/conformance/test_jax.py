"""JAX and optax under the suite, in processes that gloo joins, and whole trainings as traces."""

from pathlib import Path

import pytest

from refimpl.conformance.report import read_expected, unexpected
from refimpl.conformance.runner import run_target
from refimpl.conformance.traces.check import first_difference, judge_trace
from refimpl.conformance.traces.golden import golden

for package in ("jax", "optax", "flax"):
    pytest.importorskip(package)
import jax  # noqa: E402 - after the skip

from refimpl.conformance.adapters.jax_traces import JaxTraceTraining  # noqa: E402

TARGET = "refimpl.conformance.adapters.jax_optax"
EXPECTED = read_expected(Path(__file__).with_name("jax_optax_expected.json"))


def test_two_processes():
    outcome = run_target(TARGET, 2, only="bags/")
    assert [v.status for v in outcome.verdicts] == ["passed"] * 4, [v.why for v in outcome.verdicts]


@pytest.mark.thorough
def test_every_case():
    outcome = run_target(TARGET, 3)
    assert [(v.case, v.why) for v in unexpected(outcome, EXPECTED)] == []
    assert EXPECTED.fixed(outcome.verdicts) == []
    assert {v.why for v in outcome.verdicts if v.status == "skipped" and "most_rows" not in v.why} == {
        *(f"the adapter has no {name}" for name in ("messages", "sample", "serve", "mesh_step", "encode_steps")),
        *(f"the manifest's supports leaves out {name}" for name in ("absent", "dampened"))}


@pytest.mark.parametrize(("name", "precision"), [("lm", "float32"), *(
    pytest.param(*which, marks=pytest.mark.thorough) for which in (
        ("lm", "float64"), ("cnn", "float32"), ("cnn", "float64"), ("vgg", "float32"), ("vgg", "float64")))])
def test_a_whole_training(name, precision):
    """JAX's own derivatives, sums, clipping and updates give our trace, stage by stage."""
    with jax.enable_x64(True):
        outcome = judge_trace(JaxTraceTraining(golden(name, precision)).run())
    assert [(v.stage, v.why) for v in outcome.failed] == []
    passed = {v.stage for v in outcome.verdicts if v.status == "passed"}
    assert passed >= {"start", "local", "aggregated", "metrics", "state", "parameters", "training"}


@pytest.mark.thorough
def test_padding_as_in_tensorflow_is_seen(monkeypatch):
    """"SAME" pads the other side first where the stride is 2: the shortcut's block alone has other gradients."""
    right = jax.lax.conv_general_dilated
    monkeypatch.setattr(jax.lax, "conv_general_dilated", lambda x, w, strides, padding, **how:
                        right(x, w, strides, "SAME", **how))
    with jax.enable_x64(True):
        first = first_difference(judge_trace(JaxTraceTraining(golden("cnn", "float32")).run()).verdicts)
    assert (first[0].stage, first[1].step) == ("local", 0)
