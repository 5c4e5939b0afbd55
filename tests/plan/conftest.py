"""The helpers of these tests, ``constructed``, are a module beside them."""

import sys
from pathlib import Path

import refimpl.strategies  # noqa: F401  each file runs by itself, and plans know their strategies

sys.path.insert(0, str(Path(__file__).parent))
