"""The helpers of these tests, ``toys`` and ``plain_training``, are modules beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
