"""docs/examples: each script with refimpl has a twin with DDP, of the same module and data; both learn; without PyTorch
there are words."""

import difflib
import importlib.util
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


@pytest.mark.parametrize("name", SMALL)
def test_both_learn_alike(name):
    """One rank of each, in the same number of steps: they draw other batches, and come as far."""
    ours, ddp = load(f"torch_{name}"), load(f"torch_{name}_ddp")
    torch.manual_seed(1)
    (data, module), (same_data, same_module) = SMALL[name](ours), SMALL[name](ddp)
    same_module.load_state_dict(module.state_dict())
    found = ours.main(40, data, module, MPI.COMM_SELF).loss
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        wanted, _ = ddp.main(40, same_data, same_module)
    finally:
        torch.distributed.destroy_process_group()
    assert found == pytest.approx(wanted, rel=0.15)


def test_without_pytorch_the_import_says_what_to_do():
    code = "import sys; sys.modules['torch'] = None\nimport refimpl.torch"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert said.returncode and said.stderr.strip().splitlines()[-1].startswith(
        "ModuleNotFoundError: refimpl.torch needs PyTorch, which is not installed: pip install -e '.[torch]'")
