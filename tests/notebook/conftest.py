"""``exercise_answers`` and ``exercise_answers_later`` are files beside these tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
