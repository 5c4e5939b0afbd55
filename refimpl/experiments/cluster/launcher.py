"""The replacement of ssh for mpirun: ``launcher.py MACHINE COMMAND…`` runs the command on a machine of the cluster.

It enters the namespaces of the process that holds the machine. HOLDERS in the environment names these processes.
"""

import os
import sys

from refimpl.experiments.cluster.card import MACHINE
from refimpl.experiments.cluster.namespaces import enter

HOLDERS = "REFIMPL_CLUSTER_HOLDERS"  # "machine0=PID machine1=PID …", as the hub's process namespace counts


def main() -> None:
    """Enter the machine, and become a shell that runs the command, as ssh would."""
    machine, *command = sys.argv[1:]
    holders = dict(pair.split("=") for pair in os.environ[HOLDERS].split())
    folder = os.getcwd()
    enter(int(holders[machine]), "net", "uts", "ipc", "mnt")
    os.chdir(folder)  # a new mount namespace begins at its root
    os.environ[MACHINE] = machine.removeprefix("machine")
    os.environ["REFIMPL_WATCH"] = "refimpl.experiments.cluster.account:Account"  # of each training there
    os.execv("/bin/sh", ["sh", "-c", " ".join(command)])


if __name__ == "__main__":
    main()
