"""Every reproduction in docs/findings.md prints what stands below it."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

pytest.importorskip("torch")
PAGE = (Path(__file__).parents[2] / "docs" / "findings.md").read_text()
BLOCKS = re.findall(r"^## ([^\n]*)\n(?:(?!^## ).)*?^```python\n(.*?)^```\n\n```output\n(.*?)^```", PAGE,
                    re.MULTILINE | re.DOTALL)


def test_every_reproduction_is_found():
    assert len(BLOCKS) == PAGE.count("```python") == PAGE.count("```output") > 5


@pytest.mark.filterwarnings("ignore:Sparse invariant checks", "ignore:Grad strides do not match")
@pytest.mark.parametrize(("code", "output"), [block[1:] for block in BLOCKS], ids=[block[0] for block in BLOCKS])
def test_a_reproduction(code, output):
    if "import optax" in code or "import jax" in code:
        pytest.importorskip("optax")
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "findings.md", "exec"), {"__name__": "findings"})
    assert printed.getvalue() == output
