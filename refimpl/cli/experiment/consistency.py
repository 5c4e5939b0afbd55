"""Train without barriers, with and without a straggler: throughput, staleness, bytes, loss; a report with pictures.

python -m refimpl experiment consistency [--quick]: trainings that are done, with the same settings and code, are kept.
"""

from refimpl.cli.experiment import common, keeps, show

HELP = "consistencies beside each other, with a straggler: throughput, staleness, loss"


def add(parser):
    """Add the options."""
    common(parser, "consistency", "few steps, once: three minutes")
    keeps(parser)


def run(given: dict) -> int:
    """Run the trainings that are not done yet; print what was found. Status 1: a training failed."""
    from refimpl.experiments.consistency.report import run_experiment

    return show(*run_experiment(given["output"], given["quick"], given["any_version"]))
