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
