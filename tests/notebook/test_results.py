"""Stored results: they stand in where no cluster can be emulated, and are measured anew when notebooks are stored."""

import pytest

from refimpl.experiments.cluster import ClusterError
from refimpl.notebook.results import STORE, measured_or_stored


def refuse():
    raise ClusterError("no namespaces here")


def test_what_a_cluster_measured_is_stored_and_stands_in_for_it(tmp_path, monkeypatch, capsys):
    def asked(measure, name="kept", keep=False):
        return measured_or_stored(name, keep, "2 emulated machines", measure)

    monkeypatch.chdir(tmp_path)
    assert asked(lambda: {"seconds": 1.5})["seconds"] == 1.5 and not list(tmp_path.iterdir())
    monkeypatch.setenv(STORE, "1")
    first = asked(lambda: {"seconds": [0.5, 1.5]})
    assert first["seconds"] == [0.5, 1.5] and "2 emulated machines on" in first["measured"]
    for name, keep in (("another", False), ("another", True)):
        with pytest.raises(ClusterError, match="no namespaces here"):
            asked(refuse, name, keep)
    assert asked(refuse) == first and asked(refuse, keep=True) == first  # it was tried
    monkeypatch.delenv(STORE)
    capsys.readouterr()
    assert asked(refuse) == first and "(no namespaces here)" in capsys.readouterr().out
    assert asked(None, keep=True) == first
    assert f"a stored result: {first['measured']}. Without \"keep\" the cell measures anew" in capsys.readouterr().out
    assert asked(lambda: {"seconds": 3})["seconds"] == 3 and asked(refuse) == first
