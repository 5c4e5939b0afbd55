"""``said``: what is stored below the cells of a lesson, for tests of what its prose says of it.

``exercise_answers`` is a file beside these tests.
"""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
LESSONS = Path(__file__).parents[2] / "notebooks"


@pytest.fixture(scope="module")
def said(request):
    """Cell -> the lines of its outputs, in the notebook that the test's module names by ``LESSON``."""
    cells = json.loads((LESSONS / f"{request.module.LESSON}.ipynb").read_text("utf-8"))["cells"]
    return {cell["id"]: "".join("".join(output.get("text") or output["data"]["text/plain"]) + "\n"
                                for output in cell.get("outputs", ())).splitlines() for cell in cells}
