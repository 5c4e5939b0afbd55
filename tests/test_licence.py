"""What a package index and a reader who cites refimpl are told: the licence, the version and the paper."""

import shutil
import tomllib
from email import message_from_string
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture
def citation():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


def test_the_package_carries_its_licence(tmp_path, monkeypatch):
    backend = pytest.importorskip("setuptools.build_meta", reason="setuptools is not installed beside the tests")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    written = tmp_path / backend.prepare_metadata_for_build_wheel(str(tmp_path))
    about = message_from_string((written / "METADATA").read_text("utf-8"))
    assert about["License-Expression"] == "BSD-3-Clause" and about.get_all("License-File") == ["LICENSE"]
    assert (written / "licenses" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_licence_is_bsd_3_clause():
    title, _, holder, *rest = (ROOT / "LICENSE").read_text("utf-8").splitlines()
    assert (title, holder) == ("BSD 3-Clause License", "Copyright (c) The refimpl authors")
    assert [line[:2] for line in rest if line[:1].isdigit()] == ["1.", "2.", "3."]


def test_the_citation_is_of_this_version_and_names_the_paper(project, citation):
    assert (citation["title"], citation["version"], citation["license"]) == tuple(
        project[name] for name in ("name", "version", "license"))
    assert citation["authors"] == project["authors"]
    (paper,) = citation["references"]
    assert paper["title"].startswith("Parallax: ") and paper["doi"] == "10.1145/3302424.3303957"
    assert [author["family-names"] for author in paper["authors"]][::8] == ["Kim", "Chun"]
