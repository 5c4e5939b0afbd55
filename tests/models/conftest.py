"""The helpers of these tests, ``image_networks`` and ``nmt_batches``, are modules beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
