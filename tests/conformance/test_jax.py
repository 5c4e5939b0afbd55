"""JAX and optax under the suite, in processes that gloo joins."""

from pathlib import Path

import pytest

from refimpl.conformance.report import read_expected, unexpected
from refimpl.conformance.runner import run_target

for package in ("jax", "optax", "flax"):
    pytest.importorskip(package)
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
