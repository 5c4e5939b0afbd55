"""%%ranks and %%everywhere in a real IPython shell."""

import pytest

pytest.importorskip("IPython", reason="the extra notebooks is not installed")

from IPython.core.error import UsageError  # noqa: E402
from IPython.core.interactiveshell import InteractiveShell  # noqa: E402

from refimpl.notebook import load_ipython_extension  # noqa: E402
from refimpl.notebook.magic import bound_names  # noqa: E402


@pytest.fixture
def shell():
    shell = InteractiveShell()
    shell.history_manager.enabled = False
    load_ipython_extension(shell)
    return shell


def test_a_cell_on_ranks_knows_what_is_everywhere_and_gives_back(shell, capsys):
    shell.run_cell_magic("everywhere", "", "import math\n")
    shell.run_cell_magic("everywhere", "", "def area(r):\n    return 3 * r\n")
    shell.run_cell_magic("everywhere", "", "def area(r):\n    return round(math.pi) * r * r\n")
    shell.run_cell("k = 5")
    assert shell.user_ns["area"](2) == 12
    shell.run_cell_magic("ranks", "2 --take k", "print(area(rank + k))\ngive(areas=comm.gather(area(rank + k)))")
    assert capsys.readouterr().out == "rank 0: 75\nrank 1: 108\n"
    assert shell.user_ns["areas"] == [75, 108]
    magics = shell.magics_manager.registry["RankMagics"]
    assert len(magics.everywhere_cells) == 2, "the second definition takes the first one's place"


def test_wrong_uses_are_refused(shell):
    with pytest.raises(NameError, match="the notebook has no missing"):
        shell.run_cell_magic("ranks", "2 --take missing", "pass")
    with pytest.raises(UsageError):
        shell.run_cell_magic("ranks", "many", "pass")
    with pytest.raises(ValueError, match="stands alone in its line"):
        shell.run_cell_magic("everywhere", "4", "x = 1")
    with pytest.raises(ZeroDivisionError):
        shell.run_cell_magic("everywhere", "", "1 / 0")


def test_names_that_a_cell_binds():
    assert bound_names("import numpy as np\nclass A: pass\ndef f(): pass\nx = 1\nx.y = 2") == ["A", "f", "x"]
    assert bound_names("import numpy as np\nfrom a import b") == ["numpy", "b"]
