"""The modules of these tests, ``toy_modules``, are a file beside them; without PyTorch there is nothing to test."""

import importlib.util
import sys
from pathlib import Path

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
sys.path.insert(0, str(Path(__file__).parent))
