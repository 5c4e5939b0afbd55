"""What several tests of the suite need."""

import os
import textwrap

import pytest


@pytest.fixture
def adapter_module(tmp_path, monkeypatch):
    """adapter_module(name, code) -> the name of an adapter that this process and others can import."""
    def write(name, code):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
        return name

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return write
