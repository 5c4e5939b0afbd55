"""The models of these tests, ``toy_losses`` and ``jax_modules``, are files beside them, and ``framework_toys`` is one
of tests/training; without JAX there is nothing to test."""

import importlib.util
import sys
from pathlib import Path

collect_ignore_glob = [] if importlib.util.find_spec("jax") else ["test_*.py"]
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "training")]
