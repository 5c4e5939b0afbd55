"""Run an experiment: the paper's, training without barriers, a mesh; what is done already is kept.

python -m refimpl experiment {parallax,consistency,mesh}: each is a file here with ``add`` and ``run``, as
commands are.
"""

import importlib

NAMES = {name: f"{__package__}.{name}" for name in ("parallax", "consistency", "mesh")}
HELP = f"an experiment: {', '.join(NAMES)}"
REFUSALS = (ValueError, OSError, RuntimeError)  # ClusterError and LaunchError are RuntimeErrors


def add(parser):
    """Add the experiments, each with its own options."""
    names = parser.add_subparsers(dest="name", required=True, metavar="{" + ",".join(NAMES) + "}")
    for name, module in NAMES.items():
        one = importlib.import_module(module)
        one.add(names.add_parser(name, help=one.HELP, description=one.__doc__.partition("\n")[0]))


def run(given: dict) -> int:
    """Run the one that was asked for; return its status."""
    return importlib.import_module(NAMES[given.pop("name")]).run(given)
