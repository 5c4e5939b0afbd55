"""What is loaded before MPI: in MPI_Init a rank waits for all others, and only after ``waiting`` is it watched."""

import subprocess
import sys

from refimpl.cli import COMMANDS

LOADED = ("import sys; from refimpl.cli import parser_of; [parser_of([c]) for c in {}]; "
          "print('mpi4py.MPI' in sys.modules)")


def test_to_read_the_options_needs_no_mpi():
    code = LOADED.format(list(COMMANDS))
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"


def test_help_loads_no_numbers():
    """Loading NumPy, Numba and the models would take nine tenths of the time."""
    code = "import sys\nfrom refimpl.cli import main\ntry: main(['--help'])\nexcept SystemExit: print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "conformance" in told and not {"numpy", "numba", "models"} & set(told.splitlines()[-1].split())
