"""The same training under several architectures, each a job of its own; what each ended with."""

import json
import sys
from pathlib import Path

from refimpl.experiments.launch import launch
from refimpl.training.run_directory import free_name


def compare(model: str, ranks: int, arguments: list[str], architectures, output=None, quiet=False):
    """Run ``train`` on ``ranks`` ranks under each architecture; return (directory, [result of each]). Local.

    arguments: the training's command line after ``train``.  output: directory for the runs; None takes a free name.
    Raises ValueError if a job fails (its own message is on stderr by then), LaunchError if none can be started.
    """
    directory = Path(output) if output else free_name(Path("runs") / f"compare-{model}", taken=Path.exists)
    results = []
    for architecture in architectures:
        command = ["-m", "refimpl", "train", *arguments, "--architecture", architecture,
                   "--output", str(directory / architecture), *(["--json"] if quiet else [])]
        if not quiet:
            print(f"\n== {architecture}", flush=True)
        job = launch(ranks, command, capture=quiet)
        if job.returncode:
            if quiet:
                sys.stderr.write(job.stderr)
            raise ValueError(f"the training under {architecture} ended with status {job.returncode}")
        results.append(json.loads((directory / architecture / "result.json").read_text()))
    return directory, results
