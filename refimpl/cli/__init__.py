"""The command line: options and messages. Each subcommand is a file with ``add`` (its options) and ``run``.

asked/ has the options that they share, told/ the output that they share.
"""

import argparse
import importlib
import os
import signal
import sys
import traceback

from refimpl.cli.asked.parser import Parser
from refimpl.transport.job import end_job, leave

COMMANDS = {
    "train": "train a model of ours, or your own, on N ranks: mpirun -n N python -m refimpl train MODEL",
    "run": "train on N ranks, and start again from the newest checkpoint when ranks or machines are lost",
    "compare": "train with hybrid, allreduce, ps and a plan, one after the other; print a table, and check that hashes "
               "are equal",
    "plan": "which strategy each variable should have: bytes and predicted time of each, choice and reason",
    "bench": "compare the speed of our kernels, training and allreduce with NumPy, PyTorch and MPI, one thread each",
    "collectives": "prove, draw and simulate collective algorithms; rounding errors; trees for a network",
    "cluster": "run a command on emulated machines: cluster --machines 8 --rate 200mbit -- train MODEL",
    "experiment": "run an experiment and write its report: the paper's, and those of its relatives",
    "conformance": "compare any implementation's numbers with exact ones, and name the bug",
    "translate": 'translate sentences with a trained model: translate RUN "three thousand two hundred and four"',
    "svm": "support vector machines: mpirun -n N python -m refimpl svm train FILE",
}
"""Command -> its help. Each command is a module of this package. Only the one that is used is loaded: what the others
import need not be installed, and --help would be slow."""


def parser_of(loaded=COMMANDS) -> Parser:
    """Return the parser of all subcommands. Only those of ``loaded`` have their options."""
    top = Parser(
        prog="python -m refimpl",
        description="Hybrid, sparsity-aware data-parallel training: an executable reference (Parallax, EuroSys '19).")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, said in COMMANDS.items():
        command = commands.add_parser(name, help=said, argument_default=argparse.SUPPRESS)
        if name in loaded:
            module = importlib.import_module(f"refimpl.cli.{name}")
            command.description = module.__doc__.partition("\n")[0]
            module.add(command)
    return top


def main(arguments=None) -> int:
    """Run a command; return the exit status: 0, 1 after an error (printed on stderr), 2 for wrong options.

    An error of all ranks is printed by each rank. An error of one rank ends the whole job at once, so no rank hangs.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    options = vars(parser_of([word for word in arguments if word in COMMANDS][:1]).parse_args(arguments))
    command = importlib.import_module(f"refimpl.cli.{options.pop('command')}")
    own_signals = getattr(command, "OWN_SIGNALS", False)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL and not own_signals:  # as refimpl/__main__.py has left it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return command.run(options)
    except KeyboardInterrupt:
        _say("interrupted")
        return end_job(130)
    except BrokenPipeError:  # the program that reads the output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return end_job(141)
    except command.REFUSALS as error:
        _say(error)
        signalled = getattr(error, "signal", 0)
        return leave(128 + signalled if signalled else 1, error)
    except Exception:
        traceback.print_exc()
        return end_job(1)


def _say(words):
    sys.stderr.write(f"refimpl: error: {words}\n")  # in one piece, because other ranks write there, too
    sys.stderr.flush()
