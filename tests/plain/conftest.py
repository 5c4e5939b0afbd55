"""The trainings of these tests, ``toys``, are those of tests/training."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "training"))
