"""The same training under several architectures, each a job of its own; what each ended with."""

import json
import sys
from pathlib import Path

from refimpl.training.run.directory import free_name
from refimpl.transport.launch import launch


def compare(model: str, ranks: int, arguments: list[str], trainings: dict[str, list[str]], output=None, quiet=False):
    """Run ``train`` on ``ranks`` ranks under each; return (directory, [result of each]). Local.

    arguments: the training's command line after ``train``.  trainings: name -> what it is told beside them.
    output: directory for the runs; None takes a free name.
    Raises ValueError if a job fails (its own message is on stderr by then), LaunchError if none can be started.
    """
    name = f"compare-{model.replace(':', '.')}"
    directory = Path(output) if output else free_name(Path("runs") / name, taken=Path.exists)
    results = []
    for name, chosen in trainings.items():
        command = ["-m", "refimpl", "train", *arguments, *chosen, "--output", str(directory / name),
                   *(["--json"] if quiet else [])]
        if not quiet:
            print(f"\n== {name}", flush=True)
        job = launch(ranks, command, capture=quiet)
        if job.returncode:
            if quiet:
                sys.stderr.write(job.stderr)
            raise ValueError(f"the training under {name} ended with status {job.returncode}")
        results.append(json.loads((directory / name / "result.json").read_text()))
    return directory, results
