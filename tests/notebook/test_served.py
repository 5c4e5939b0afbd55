"""What a lesson links to, `make notebooks` serves: the server that the Makefile starts is asked for each link."""

import json
import os
import posixpath
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("jupyterlab", reason="the extra notebooks is not installed")
jupyter_client = pytest.importorskip("jupyter_client", reason="the extra notebooks is not installed")

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)|(?:src|href)=\"([^\":#]+)(?:#[^\"]*)?\"")
QUIET = ["--no-browser", "--ServerApp.port=0", "--ServerApp.ip=127.0.0.1"]
SECONDS = 60


class Server:
    """A server that runs ``command``, and leaves word of itself and of its kernels in ``runtime``."""

    def __init__(self, command: list[str], runtime: Path):
        self.runtime = runtime
        self.process = subprocess.Popen([*command, *QUIET], cwd=ROOT, start_new_session=True,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env=os.environ | {"JUPYTER_RUNTIME_DIR": str(runtime)})
        described = json.loads(self._appears("jpserver-*.json").read_text())
        self.url, self.token = described["url"], described["token"]
        self._answers()

    def _appears(self, pattern: str) -> Path:
        """Return the file of the runtime folder that the server is to write; raise AssertionError if it does not."""
        end = time.monotonic() + SECONDS
        while not (found := [path for path in self.runtime.glob(pattern) if path.stat().st_size]):
            assert self.process.poll() is None and time.monotonic() < end, f"the server has written no {pattern}"
            time.sleep(0.05)
        return found[0]

    def _answers(self) -> None:
        """Wait until the server takes connections, which may be after it has written its address."""
        end = time.monotonic() + SECONDS
        while True:
            try:
                self.ask("api")
                return
            except urllib.error.URLError:
                assert self.process.poll() is None and time.monotonic() < end, "the server takes no connections"
                time.sleep(0.05)

    def ask(self, path: str, post: dict | None = None) -> tuple[int, bytes, str]:
        """Return (HTTP status, body, address at last) of a path; post: what is sent as JSON."""
        request = urllib.request.Request(self.url + path, json.dumps(post).encode() if post else None,
                                         {"Authorization": f"token {self.token}"})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return answer.status, answer.read(), answer.url
        except urllib.error.HTTPError as refusal:
            return refusal.code, b"", self.url + path

    def in_kernel(self, notebook: str, code: str) -> str:
        """Start the kernel of a notebook as JupyterLab does, and return what code prints there."""
        named = {"path": notebook, "name": notebook, "type": "notebook"}
        assert self.ask("api/sessions", {**named, "kernel": {"name": "python3"}})[0] == 201
        client = jupyter_client.BlockingKernelClient(connection_file=str(self._appears("kernel-*.json")))
        client.load_connection_file()
        client.start_channels(hb=False)  # a busy machine misses beats
        said = []
        try:
            client.wait_for_ready(SECONDS)
            client.execute_interactive(code, timeout=SECONDS, output_hook=lambda m: said.append(m["content"]))
        finally:
            client.stop_channels()
        return "".join(content.get("text", "") for content in said)

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(SECONDS)


def command_of(target: str) -> list[str]:
    """Return the last command that the Makefile has for a target, on this Python."""
    alone = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    told = subprocess.run(["make", "--no-print-directory", "-n", target, f"ENVIRONMENT={sys.executable}"], cwd=ROOT,
                          env=alone, capture_output=True, text=True, check=True)
    return shlex.split(told.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    started = Server(command_of("notebooks"), tmp_path_factory.mktemp("runtime"))
    yield started
    started.end()


def links(notebook: dict) -> set[str]:
    """Return what a notebook's prose and outputs link to or show, of this repository: as written, without anchors."""
    texts = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    texts += ["".join(output.get("data", {}).get(kind, ())) for kind in ("text/html", "text/markdown")
              for cell in notebook["cells"] for output in cell.get("outputs", ())]
    written = [re.sub(r"```.*?```", "", text, flags=re.DOTALL) for text in texts]  # code may look like a link
    return {target for text in written for found in LINK.findall(text) for target in found if target}


def refused(server: Server, folder: str, targets: set[str]) -> list[str]:
    """Return those of a folder's links for which the server has nothing, or a folder, which JupyterLab cannot open."""
    found = []
    for target in sorted(targets):
        place = posixpath.normpath(posixpath.join(folder, target))
        status, about, _ = server.ask(f"api/contents/{place}?content=0")
        if status != 200 or json.loads(about)["type"] == "directory":
            found.append(target)
    return found


def test_every_link_of_every_lesson_is_served(server):
    lessons = {path.name: links(json.loads(path.read_text())) for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert all(any(target.startswith("../refimpl/") for target in targets) for targets in lessons.values())
    missing = {name: refused(server, "notebooks", targets) for name, targets in lessons.items()}
    assert {name: targets for name, targets in missing.items() if targets} == {}


def test_what_is_not_served_is_seen(server):
    prose = ["[a](../refimpl/none.py#L1) [b](../../above.md) ", "[c](../README.md#x) [d](../models)"]
    cell = {"cell_type": "markdown", "source": prose}
    shown = {"cell_type": "code", "outputs": [{"data": {"text/html": '<img src="pictures/none.svg" alt="a">'}}]}
    targets = links({"cells": [cell, shown]})
    assert refused(server, "notebooks", targets) == [
        "../../above.md", "../models", "../refimpl/none.py", "pictures/none.svg"]
    assert refused(server, ".", {"../README.md"}) == ["../README.md"], "as from a server of the folder notebooks alone"


def test_it_opens_on_the_first_lesson(server):
    status, page, address = server.ask("")
    assert status == 200 and address.endswith("/lab/tree/notebooks/0_training_step.ipynb") and b"JupyterLab" in page
    assert server.ask("files/notebooks/pictures/1_adding_up-sent.svg")[1].startswith(b"<svg")


def test_a_kernel_finds_the_stored_results_beside_its_lesson(server):
    code = "from refimpl.notebook.results import RESULTS as r; print(r.resolve(), len(list(r.glob('*.json'))) > 5)"
    assert server.in_kernel("notebooks/4_hybrid.ipynb", code) == f"{ROOT / 'notebooks' / 'results'} True\n"
