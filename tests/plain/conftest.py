"""The trainings of these tests: ``toys``, of tests/training, and ``springs``."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "training")]
