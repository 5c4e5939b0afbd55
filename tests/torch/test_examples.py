"""docs/examples: each script with refimpl has a twin with DDP, of the same module and data; both learn; without PyTorch
there are words."""

import difflib
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from mpi4py import MPI

ROOT = Path(__file__).parents[2]
SMALL = {"lm": lambda ours: (ours.Text(256, 5, 90), ours.LanguageModel(90, 8, 8, 20)),
         "recommender": lambda ours: (ours.Clicks(1024), ours.Recommender())}


def load(name):
    """Import a script of docs/examples."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SMALL)
def test_the_twins_train_the_same_module(name):
    """Model and data are the same lines; of the training less is written with refimpl."""
    texts = [(ROOT / "docs" / "examples" / f"torch_{name}{kind}.py").read_text() for kind in ("", "_ddp")]
    parts = [text[text.index("class "):text.index("def main")] for text in texts]
    assert parts[0] == parts[1]
    changed = list(difflib.ndiff(*(text[text.index("def main"):].splitlines() for text in texts)))
    assert sum(line.startswith("- ") for line in changed) < sum(line.startswith("+ ") for line in changed)


@pytest.mark.thorough("recommender")
@pytest.mark.parametrize("name", SMALL)
def test_both_learn_alike(name, tmp_path):
    """One rank of each, in the same number of steps: they draw other batches, and come as far."""
    ours = load(f"torch_{name}")
    torch.manual_seed(1)
    data, module = SMALL[name](ours)
    torch.save(module.state_dict(), tmp_path / "begin.pt")
    peer = subprocess.run([sys.executable, __file__, name, tmp_path / "begin.pt"], capture_output=True, text=True,
                          cwd=ROOT)
    assert peer.returncode == 0, peer.stderr
    found = ours.main(40, data, module, MPI.COMM_SELF).loss
    assert found == pytest.approx(float(peer.stdout.splitlines()[-1]), rel=0.15)


def loss_with_ddp(name, begin):
    """Return the loss of the twin. In a process of its own: gloo's threads have crashed one that had run much else."""
    ddp = load(f"torch_{name}_ddp")
    data, module = SMALL[name](ddp)
    module.load_state_dict(torch.load(begin))
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    return ddp.main(40, data, module)[0]


@pytest.mark.thorough
def test_the_two_scripts_of_the_guide_learn_the_same(tmp_path):
    """In one order of the examples. Of 25 lines, eleven change."""
    found, guide = {}, (ROOT / "docs" / "torch.md").read_text()
    for script in re.findall(r"```python\n# (?:before|after).py\n(.*?)```", guide, re.S):
        said = subprocess.run([sys.executable, "-c", script.replace("shuffle=True", "shuffle=False")], cwd=tmp_path,
                              capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
        assert said.returncode == 0, said.stderr
        losses = [float(line.split()[1]) for line in said.stdout.splitlines()]
        found[script] = losses, torch.load(tmp_path / "learned.pt")
    (wanted, theirs), (losses, ours) = found.values()
    assert losses == pytest.approx(wanted, rel=1e-4) and losses[-1] < losses[0]
    assert all(torch.allclose(value, theirs[key], rtol=1e-3, atol=1e-5) for key, value in ours.items())
    changed = [line for line in difflib.ndiff(*(script.splitlines() for script in found)) if line.startswith("+ ")]
    assert len(changed) == 11


def test_without_pytorch_the_import_says_what_to_do():
    code = "import sys; sys.modules['torch'] = None\nimport refimpl.torch"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert said.returncode and said.stderr.strip().splitlines()[-1].startswith(
        "ModuleNotFoundError: refimpl.torch needs PyTorch, which is not installed: pip install -e '.[torch]'")


if __name__ == "__main__":
    print(loss_with_ddp(*sys.argv[1:]))
