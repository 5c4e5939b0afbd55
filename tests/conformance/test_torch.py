"""PyTorch under the suite: DistributedDataParallel on 3 ranks, and whole trainings as traces."""

import warnings
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

torch = pytest.importorskip("torch")
from refimpl.conformance.adapters.torch_traces import TorchTraceTraining  # noqa: E402 - after the skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks")
ADAPTERS = "refimpl.conformance.adapters"
EXPECTED = read_expected(Path(__file__).with_name("torch_ddp_expected.json"))


@pytest.mark.thorough
def test_distributed_data_parallel():
    target, ranks = f"{ADAPTERS}.torch_ddp", 3  # test_guide.py runs it on 2, as docs/guide.md says
    outcome = run_target(target, ranks)
    wrong = unexpected(outcome, EXPECTED)
    for verdict in wrong:  # a busy machine can lose one of gloo's processes; a rank that is lost again is a failure
        if NEVER in verdict.why:
            warnings.warn(f"{target} once: {verdict.case}: {verdict.why}")
    wrong = [v for v in wrong if NEVER not in v.why or unexpected(run_target(target, ranks, only=v.case), EXPECTED)]
    assert [(v.case, v.why) for v in wrong] == []
    assert EXPECTED.fixed(outcome.verdicts) == []
    assert {v.why for v in outcome.verdicts if v.status == "skipped"} == {
        *(f"the adapter has no {name}" for name in ("serve", "mesh_step", "encode_steps")),
        *(f"the manifest's supports leaves out {name}" for name in ("absent", "row-decay"))}


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
def test_a_wrong_manifest_is_told(tmp_path, monkeypatch):
    """PyTorch's numbers say what they mean, whatever its adapter says."""
    (tmp_path / "declares_otherwise.py").write_text(DECLARES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    outcome = run_target("declares_otherwise", 2, only="rows/exact")
    assert {v.diagnosis.code for v in outcome.failed} == {"sparse=average"}


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", ["lm", "cnn", "vgg"])
def test_a_whole_training(name, precision):
    """PyTorch's own forward and backward passes, sums, clipping and updates give our trace, stage by stage."""
    outcome = judge_trace(TorchTraceTraining(golden(name, precision)).run())
    assert [(v.stage, v.why) for v in outcome.failed] == []
    passed = {v.stage for v in outcome.verdicts if v.status == "passed"}
    assert passed >= {"start", "local", "aggregated", "metrics", "state", "parameters", "training"}


def the_target_stays_a_candidate(training, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "masked_fill", lambda logits, *_: logits)


def rows_are_left_out_of_the_norm(training, monkeypatch):
    def clip():
        dense = [training.values[n] for n in training.trained if not training.values[n].grad.is_sparse]
        return torch.nn.utils.clip_grad_norm_(dense, training.training["clip"]).item()

    monkeypatch.setattr(training, "clip", clip)


@pytest.mark.parametrize(("fault", "stage"), [(the_target_stays_a_candidate, "local"),
                                              (rows_are_left_out_of_the_norm, "metrics")])
def test_a_careless_training_is_seen_where_it_begins(monkeypatch, fault, stage):
    training = TorchTraceTraining(golden("lm", "float32"))
    fault(training, monkeypatch)
    first = first_difference(judge_trace(training.run()).verdicts)
    assert (first[0].stage, first[1].step) == (stage, 0)


@pytest.mark.parametrize("name", ["mesh/2x2-to-the-end", "mesh/1x4-odd", "mesh/4x1-clip"])
def test_what_a_mesh_should_give_is_what_autograd_gives(name):
    """Of the whole network, all microbatches at once."""
    case = case_named(name, 4)
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
