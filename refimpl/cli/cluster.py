"""Run a command on emulated machines, connected by cables of a given rate. Ranks of one machine share memory.

python -m refimpl cluster --machines 8 --ranks-per-machine 2 --rate 200mbit -- train lm --architecture hybrid
"""

import argparse
import json
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from models.registry import MODELS
from refimpl.cli.asked.values import listed, nonempty, seconds, whole
from refimpl.experiments.cluster import ClusterError, run_on_cluster
from refimpl.transport.launch import LaunchError

EXAMPLE = f"-- train {next(iter(MODELS))}"
REFUSALS = ()


def add(parser):
    """Add the options."""
    parser.add_argument("--machines", type=whole(), metavar="M", help="number of machines")
    parser.add_argument("--links", type=nonempty, metavar="NETWORK",
                        help="in place of --machines: a network without switches (see collectives trees), in which "
                             "each link is a cable; --rate is then the rate of a link of capacity 1")
    parser.add_argument("--ranks-per-machine", type=whole(), default=1, metavar="R",
                        help="ranks on each machine (default 1)")
    speed = parser.add_mutually_exclusive_group(required=True)
    speed.add_argument("--rate", metavar="RATE", help="rate of each machine's network card, in and out: 200mbit, 1gbit")
    speed.add_argument("--rates", type=listed, metavar="RATE,RATE,...", help="one rate for each machine")
    parser.add_argument("--slow", action="append", default=[], metavar="MACHINE=RATE@SECONDS",
                        help="change the rate of a machine this many seconds after the start; may be repeated")
    parser.add_argument("--cut", action="append", default=[], metavar="MACHINE@SECONDS",
                        help="cut the cable of a machine this many seconds after the start; may be repeated")
    parser.add_argument("--timeout", type=seconds, default=None, metavar="SECONDS",
                        help="end the job after this time, with exit status 124")
    parser.add_argument("--json", action="store_true", default=False,
                        help="print one JSON object with the exit status, seconds, bytes of each card, the result of "
                             "a training, and the output of the job")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- COMMAND",
                        help="a command of refimpl, or -m MODULE, -c CODE or SCRIPT.py with arguments")


def run(given: dict) -> int:
    """Run the command on the cluster; return its status. 2: no cluster is possible here; 124: it took too long."""
    from refimpl.experiments.cluster.description import parse_cut, parse_slow

    try:
        events = (*map(parse_slow, given["slow"]), *map(parse_cut, given["cut"]))
        machines, rate, links = _wired(given)
        job = run_on_cluster(machines, given["ranks_per_machine"], rate, python_arguments(given["arguments"]),
                             given["timeout"], capture=given["json"], events=events, links=links)
    except subprocess.TimeoutExpired:
        print(f"refimpl: error: still running after {given['timeout']:g} s: ended", file=sys.stderr)
        return 124
    except (ClusterError, LaunchError, ValueError) as error:
        print(f"refimpl: error: {error}", file=sys.stderr)
        return 2
    if given["json"]:
        sys.stderr.write(job.stderr)
        print(json.dumps({"returncode": job.returncode, "seconds": job.seconds, "machine_bytes": job.machine_bytes,
                          "training": job.training, "stdout": job.stdout}))
    elif job.machine_bytes:
        print(describe(job), file=sys.stderr)
    if not job.machine_bytes:
        print(f"refimpl: error: the cluster was ended from outside (status {job.returncode}); nothing of it is left",
              file=sys.stderr)
    return job.returncode


def _wired(given):
    """Return (machines, rate or rates of their cards, cables between two of them)."""
    from refimpl.experiments.cluster.description import FASTEST, cables_of

    if "links" not in given:
        if "machines" not in given:
            raise ClusterError("the number of machines is missing: give --machines, or --links NETWORK")
        return given["machines"], given.get("rates") or given["rate"], ()
    from refimpl.collectives.links import named_links

    links = named_links(given["links"])
    if given.get("machines", links.ranks) != links.ranks or "rates" in given:
        raise ClusterError(f"--links {links.name} says that there are {links.ranks} machines, and what their cables "
                           "carry: leave --machines and --rates out")
    return links.ranks, FASTEST, cables_of(links, given["rate"])


def python_arguments(arguments: list[str]) -> list[str]:
    """Return what follows ``python`` for a command of refimpl, a module, code or a script."""
    arguments = arguments[1:] if arguments[:1] == ["--"] else arguments
    if not arguments:
        raise ClusterError(f"nothing to run: give a command after --, as in: {EXAMPLE}")
    _require_there(*arguments[:2])
    plain = arguments[0] in ("-m", "-c") or arguments[0].endswith(".py")
    return arguments if plain else ["-m", "refimpl", *arguments]


def _require_there(what: str, name: str | None = None):
    """Raise ClusterError if a module, script or command does not exist. Otherwise each rank would print a traceback."""
    from refimpl.cli import COMMANDS

    if what in ("-m", "-c"):
        if name is None:
            raise ClusterError(f"nothing to run: give a {'module' if what == '-m' else 'line of Python'} after {what}")
        missing = _missing_module(name) if what == "-m" else None
        if missing is not None:
            raise ClusterError(f"there is no module {missing} here or on PYTHONPATH")
    elif what.endswith(".py"):
        if not Path(what).is_file():
            raise ClusterError(f"there is no script {what}; name one from this folder, or by its whole path")
    elif what not in COMMANDS:
        raise ClusterError(f"no command {what!r}; there are {', '.join(COMMANDS)}, and -m MODULE, -c CODE, SCRIPT.py")


def _missing_module(name: str) -> str | None:
    """Return the first of a, a.b, a.b.c that does not exist, or None. It imports none of them."""
    parts, path = name.split("."), ["", *sys.path]
    for end in range(1, len(parts) + 1):
        module = ".".join(parts[:end])
        if module in sys.builtin_module_names and end == len(parts):
            return None
        try:
            spec = PathFinder.find_spec(module, path) if parts[end - 1] and path is not None else None
        except KeyError:  # a folder without __init__.py in another one: only importing both can tell
            return None
        if spec is None:
            return module
        path = spec.submodule_search_locations
    return None


def describe(job) -> str:
    """Return a table of the bytes on each machine's network card. Local."""
    from refimpl.experiments.cluster.account import describe as describe_training

    lines = [f"cards of the {len(job.machine_bytes)} machines in {job.seconds:.1f} s, start and headers included:"]
    for machine, (sent, received) in enumerate(job.machine_bytes):
        lines.append(f"  machine {machine:3}  sent {sent:15,} B  received {received:15,} B")
    return "\n".join(lines + (describe_training(job.training) if job.training else []))
