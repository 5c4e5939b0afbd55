"""TorchRec under the suite. It must be installed by hand, see docs/findings.md."""

import pytest

from refimpl.conformance.runner import run_target

pytest.importorskip("torchrec")


def test_every_case():
    outcome = run_target("refimpl.conformance.adapters.torchrec_tables", 2)
    assert [(v.case, v.why) for v in outcome.failed] == []
    assert sum(v.status == "passed" for v in outcome.verdicts) == 21
