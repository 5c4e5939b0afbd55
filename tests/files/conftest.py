"""The helpers of these tests, ``damage``, are a module beside them; ``toys`` are those of the trainings."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "training")]
