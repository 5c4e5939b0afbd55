"""What is loaded before MPI: in MPI_Init a rank waits for all others, and only after ``waiting`` is it watched."""

import subprocess
import sys

import pytest

from refimpl.cli import COMMANDS

LOADED = "import sys; from refimpl.cli import parser; parser(['{}']); print('mpi4py.MPI' in sys.modules)"


@pytest.mark.parametrize("command", COMMANDS)
def test_to_read_the_options_needs_no_mpi(command):
    told = subprocess.run([sys.executable, "-c", LOADED.format(command)], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
