"""The command line: thin, talks to people. Each subcommand is a file with ``add`` (its options) and ``run``.

asked/ is what their options have in common, told/ what they print.
"""

import argparse
import importlib
import os
import signal
import sys
import traceback

from refimpl.cli.asked.parser import Parser
from refimpl.transport.job import end_job, leave

COMMANDS = ("train", "run", "compare", "plan", "bench", "collectives", "cluster", "experiment", "conformance",
            "translate", "svm")
"""Each is a module of this package. Only the one that is asked for is loaded: conformance must work without models."""


def parser_of(names=COMMANDS) -> Parser:
    """Return the parser of the subcommands ``names``."""
    top = Parser(
        prog="python -m refimpl",
        description="Hybrid, sparsity-aware data-parallel training: an executable reference (Parallax, EuroSys '19).")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in names:
        module = importlib.import_module(f"refimpl.cli.{name}")
        module.add(commands.add_parser(name, help=module.HELP, description=module.__doc__.partition("\n")[0],
                                       argument_default=argparse.SUPPRESS))
    return top


def main(arguments=None) -> int:
    """Run a command; return the exit status: 0, 1 for an error (said on stderr), 2 for wrong options.

    An error that all ranks share is printed by each rank. Any other ends the whole job at once, so that no rank hangs.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    asked = tuple(name for name in COMMANDS if arguments[:1] == [name])
    options = vars(parser_of(asked or COMMANDS).parse_args(arguments))
    command = importlib.import_module(f"refimpl.cli.{options.pop('command')}")
    own_signals = getattr(command, "OWN_SIGNALS", False)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL and not own_signals:  # as refimpl/__main__.py has left it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return command.run(options)
    except KeyboardInterrupt:
        _say("interrupted")
        return end_job(130)
    except BrokenPipeError:  # the reader of our output has ended
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
    sys.stderr.write(f"refimpl: error: {words}\n")  # in one piece: other ranks write there too
    sys.stderr.flush()
