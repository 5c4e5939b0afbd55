"""The modules of these tests, ``toy_modules``, are a file beside them; without PyTorch there is nothing to test."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
