"""Train, and start again from the newest checkpoint whenever the job ends before the training is complete.

python -m refimpl run -n 4 --restarts 3 -- train MODEL --output runs/model --checkpoint-every 50
"""

import argparse
from pathlib import Path

from refimpl.cli.asked.values import nonempty, whole
from refimpl.transport.launch import LaunchError

REFUSALS = (ValueError, OSError, LaunchError)
NOT_HERE = {"no_output": "without files there is no checkpoint to continue from",
            "resume": "a run whose --output holds a checkpoint continues from it",
            "replay": "a replay cannot be interrupted and restarted"}
"""Options of train that ``run`` refuses: option -> why."""


def add(parser):
    """Add the options."""
    parser.add_argument("-n", "--ranks", type=whole(), metavar="N",
                        help="ranks to start; with --hosts at most N (default: as many as the hosts run)")
    parser.add_argument("--hosts", type=nonempty, metavar="FILE",
                        help="hosts to run on, one a line: HOST, HOST:RANKS or HOST slots=RANKS. It is read again "
                             "before each start, and hosts that do not answer are left out")
    parser.add_argument("--restarts", type=whole(0), metavar="R", default=3, help="at most R restarts (default 3)")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- train ...",
                        help="the training, as after python -m refimpl; it needs --output DIR, on a disk that all "
                             "hosts share")


def run(given: dict) -> int:
    """Train, restarting; return 0 once the training is complete. Local: it starts the ranks."""
    from refimpl.training.run.restarts import train_with_restarts

    arguments, output = _training(given["arguments"])
    ranks, hosts = given.get("ranks"), given.get("hosts")
    if ranks is None and hosts is None:
        raise ValueError("the number of ranks is missing: give -n N, or --hosts FILE")
    return train_with_restarts(arguments, Path(output), ranks, hosts, given["restarts"])


def _training(arguments: list[str]) -> tuple[list[str], str]:
    """Return the training's command line and its run directory. Raises ValueError if it cannot be restarted."""
    from refimpl.cli import parser_of

    arguments = arguments[1:] if arguments[:1] == ["--"] else arguments
    if arguments[:1] != ["train"]:
        raise ValueError("nothing to run: give a training after --: run -n 4 -- train MODEL --output DIR")
    asked = vars(parser_of(("train",)).parse_args(arguments))
    for option, why in NOT_HERE.items():
        if option in asked:
            raise ValueError(f"leave out --{option.replace('_', '-')}: {why}")
    if "output" not in asked:
        raise ValueError("the training needs --output DIR: a restart continues from the checkpoint there")
    return arguments, asked["output"]
