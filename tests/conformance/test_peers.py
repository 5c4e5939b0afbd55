"""PyTorch, JAX and TorchRec under the suite, in processes that gloo joins; whole trainings of two of them as traces.

TorchRec must be installed by hand, see docs/findings.md.
"""

import importlib
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from refimpl.conformance.cases import case_named, mesh
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.report import read_expected, unexpected
from refimpl.conformance.runner import NEVER, run_target
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.traces.check import first_difference, judge_trace
from refimpl.conformance.traces.golden import golden

pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks")
ADAPTERS = "refimpl.conformance.adapters"
NEEDS = {"torch": ("torch",), "jax": ("jax", "optax", "flax"), "torchrec": ("torchrec",)}
HAVE_NOT = {"torch_ddp": (3, "serve mesh_step encode_steps", "absent row-decay"),
            "jax_optax": (3, "messages sample serve mesh_step encode_steps", "absent dampened")}
"""Adapter -> ranks, the functions that it has not, and what its manifest does not support."""


def need(peer):
    for package in NEEDS[peer]:
        pytest.importorskip(package)


@pytest.mark.thorough
@pytest.mark.parametrize("adapter", HAVE_NOT)
def test_every_case(adapter):
    """PyTorch on 3 ranks: test_guide.py runs it on 2, as docs/guide.md says."""
    need(adapter.partition("_")[0])
    ranks, functions, supports = HAVE_NOT[adapter]
    target, expected = f"{ADAPTERS}.{adapter}", read_expected(Path(__file__).with_name(f"{adapter}_expected.json"))
    outcome = run_target(target, ranks)
    wrong = unexpected(outcome, expected)
    for verdict in wrong:  # a busy machine can lose one of gloo's processes; a rank that is lost again is a failure
        if NEVER in verdict.why:
            warnings.warn(f"{target} once: {verdict.case}: {verdict.why}")
    wrong = [v for v in wrong if NEVER not in v.why or unexpected(run_target(target, ranks, only=v.case), expected)]
    assert [(v.case, v.why) for v in wrong] == [] == expected.fixed(outcome.verdicts)
    assert {v.why for v in outcome.verdicts if v.status == "skipped" and "most_rows" not in v.why} == {
        *(f"the adapter has no {name}" for name in functions.split()),
        *(f"the manifest's supports leaves out {name}" for name in supports.split())}


@pytest.mark.parametrize("adapter, only, passed", [("jax_optax", "bags/", 4), ("torchrec_tables", "", 21)])
def test_two_processes(adapter, only, passed):
    need(adapter.partition("_")[0])
    outcome = run_target(f"{ADAPTERS}.{adapter}", 2, only=only)
    assert [(v.case, v.why) for v in outcome.failed] == []
    assert sum(v.status == "passed" for v in outcome.verdicts) == passed


DECLARES = """
from refimpl.conformance.adapters.torch_ddp import TorchDDP

LAUNCHER = "processes"


class Declares(TorchDDP):
    def describe(self):
        return {**super().describe(), "sparse": "sum"}


adapter = Declares()
world, describe, aggregate_rows = adapter.world, adapter.describe, adapter.aggregate_rows
"""


@pytest.mark.thorough
def test_a_wrong_manifest_is_told(adapter_module):
    """PyTorch's numbers say what they mean, whatever its adapter says."""
    need("torch")
    outcome = run_target(adapter_module("declares_otherwise", DECLARES), 2, only="rows/exact")
    assert {v.diagnosis.code for v in outcome.failed} == {"sparse=average"}


def judged(peer, name="lm", precision="float32", fault=lambda training: None):
    """Return the outcome of a golden training in a framework. fault(training) plants a mistake."""
    need(peer)
    traces = importlib.import_module(f"{ADAPTERS}.{peer}_traces")
    with traces.jax.enable_x64(True) if peer == "jax" else nullcontext():
        training = getattr(traces, {"torch": "TorchTraceTraining", "jax": "JaxTraceTraining"}[peer])(
            golden(name, precision))
        fault(training)
        return judge_trace(training.run())


@pytest.mark.parametrize("peer, name, precision", [
    (peer, name, precision) for peer in ("torch", "jax") for name in ("lm", "cnn", "nmt", "vgg")
    for precision in ("float32", "float64")
    if (peer, name, precision) != ("jax", "nmt", "float64")])  # JAX compiles it for each length of its sentences
@pytest.mark.thorough("torch-lm", "torch-cnn", "torch-vgg", "jax-lm-float32")
def test_a_whole_training(peer, name, precision):
    """Its own forward and backward passes, sums, clipping and updates give our trace, stage by stage."""
    outcome = judged(peer, name, precision)
    assert [(v.stage, v.why) for v in outcome.failed] == []
    passed = {v.stage for v in outcome.verdicts if v.status == "passed"}
    assert passed >= {"start", "local", "aggregated", "metrics", "state", "parameters", "training"}


def the_target_stays_a_candidate(training, monkeypatch):
    monkeypatch.setattr("torch.Tensor.masked_fill", lambda logits, *_: logits)


def rows_are_left_out_of_the_norm(training, monkeypatch):
    import torch

    def clip():
        dense = [training.values[n] for n in training.trained if not training.values[n].grad.is_sparse]
        return torch.nn.utils.clip_grad_norm_(dense, training.training["clip"]).item()

    monkeypatch.setattr(training, "clip", clip)


def padded_as_in_tensorflow(training, monkeypatch):
    """"SAME" pads the other side first where the stride is 2: the shortcut's block alone has other gradients."""
    import jax

    right = jax.lax.conv_general_dilated
    monkeypatch.setattr(jax.lax, "conv_general_dilated", lambda x, w, strides, padding, **how:
                        right(x, w, strides, "SAME", **how))


@pytest.mark.parametrize("peer, name, fault, stage", [
    ("torch", "lm", the_target_stays_a_candidate, "local"), ("torch", "lm", rows_are_left_out_of_the_norm, "metrics"),
    ("jax", "cnn", padded_as_in_tensorflow, "local")])
@pytest.mark.thorough("torch")
def test_a_careless_training_is_seen_where_it_begins(monkeypatch, peer, name, fault, stage):
    first = first_difference(judged(peer, name, fault=lambda training: fault(training, monkeypatch)).verdicts)
    assert (first[0].stage, first[1].step) == (stage, 0)


@pytest.mark.parametrize("name", ["mesh/2x2-to-the-end", "mesh/1x4-odd", "mesh/4x1-clip"])
def test_what_a_mesh_should_give_is_what_autograd_gives(name):
    """Of the whole network, all microbatches at once."""
    torch, case = pytest.importorskip("torch"), case_named(name, 4)
    weights = {n: torch.tensor(a, dtype=torch.float64, requires_grad=True) for n, a in mesh.weights_of(case).items()}
    x, g = (torch.tensor(np.concatenate([a for parts in case.steps[0] for a in parts[what]]), dtype=torch.float64)
            for what in ("inputs", "gradients"))
    for layer in mesh.layers_of(case):
        x = torch.nn.functional.linear(x, weights[layer.weight], weights[layer.bias])
        x = x if layer.last else torch.relu(x)
        if layer.name in (dropout := mesh.dropout_of(case)):
            x = x * torch.tensor(np.concatenate(dropout[layer.name]))
    loss = (x * g).sum() / mesh.NORMALISER
    loss.backward()
    if case.settings["clip"]:
        torch.nn.utils.clip_grad_norm_(weights.values(), case.settings["clip"])
    [wanted] = KINDS[case.kind].expect(case, Semantics())
    assert wanted.pop("loss").value == loss.item()
    for called, want in wanted.items():
        name, _, member = called.partition(" of member ")
        whole = (weights[name] - mesh.RATE * weights[name].grad).detach().numpy()
        part = np.split(whole, case.settings["mesh"][1])[int(member)] if member else whole
        assert (np.abs(part - want.value) <= want.tolerance).all(), called
