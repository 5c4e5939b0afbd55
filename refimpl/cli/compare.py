"""Train with each architecture, with the same options otherwise, and put the results side by side.

Each training is a separate job, started with the mpirun of mpi4py's MPI.
"""

import argparse
import json
import sys
from pathlib import Path

from models.registry import entry_of
from refimpl.cli.asked.options import add_model, add_training_options, named_model
from refimpl.cli.told.tables import console, table_of
from refimpl.cli.told.said import READ_IN_PLACE, kinds_told
from refimpl.cli.asked.values import nonempty, whole
from refimpl.training.run.directory import free_name, read_result
from refimpl.transport.launch import LaunchError, launch
from refimpl.words import counted

REFUSALS = (ValueError, OSError, LaunchError)
ARCHITECTURES = ("hybrid", "allreduce", "ps")
QUALITIES = ("perplexity", "accuracy")


def add(parser):
    """Add the options."""
    add_model(parser)
    parser.add_argument("--ranks", type=whole(), metavar="N", help="ranks to start (default 4)")
    parser.add_argument("--output", type=nonempty, metavar="DIR",
                        help="directory for the run directories (default runs/compare-MODEL)")
    parser.add_argument("--json", action="store_true", help="print only the results, as one JSON object")
    add_training_options(parser)


def run(given: dict) -> int:
    """Train with each architecture; print a table. Status 1: the parameters differ."""
    from refimpl.pictures.runs import plot_losses

    model, passed_on = named_model(given), training_arguments(sys.argv[2:])
    if given.get("steps") == 0:
        raise ValueError("--steps 0: without a step there is nothing to compare; give 1 or more")
    trainings = {name: ["--architecture", name] for name in ARCHITECTURES}
    if given.get("shard_optimizer"):
        trainings["ps"] += ["--no-shard-optimizer"]  # each variable has only one owner anyway
    if given.get("mesh"):
        trainings["ps"] += ["--mesh", f"{given.get('ranks', 4)}x1"]  # cut layers lie on the ranks, not on a server
    if given.get("plan", "none") != "none":
        trainings["plan"] = ["--plan", given["plan"]]
    as_json = given.get("json", False)
    directory, results = train_under(model, given, passed_on, trainings, as_json)
    picture = plot_losses({name: directory / name for name in trainings}, directory / "loss.png")
    hashes = {r["parameters_sha256"] for r in results}
    if as_json:
        print(json.dumps({"results": results, "one_answer": len(hashes) == 1, "directory": str(directory)}))
    else:
        _print_table(model, results)
        print(f"{'One answer: the hashes are equal' if len(hashes) == 1 else 'THE HASHES DIFFER'}."
              f" Loss curves: {picture}. Run directories: {directory}/{{{','.join(trainings)}}}")
    return 0 if len(hashes) == 1 else 1


def train_under(model: str, given: dict, arguments: list[str], trainings: dict[str, list[str]], quiet: bool):
    """Run ``train`` for each, in separate jobs; return (directory, [result of each]). Local.

    arguments: the training's command line after ``train``.  trainings: name -> its additional options.
    Raises ValueError if a job fails, after the job's own message; LaunchError if none can be started.
    """
    name = f"compare-{model.replace(':', '.')}"
    directory = Path(given["output"]) if "output" in given else free_name(Path("runs") / name, taken=Path.exists)
    results = []
    for name, chosen in trainings.items():
        command = ["-m", "refimpl", "train", *arguments, *chosen, "--output", str(directory / name),
                   *(["--json"] if quiet else [])]
        if not quiet:
            print(f"\n== {name}", flush=True)
        job = launch(given.get("ranks", 4), command, capture=quiet)
        if job.returncode:
            if quiet:
                sys.stderr.write(job.stderr)
            raise ValueError(f"the training under {name} ended with status {job.returncode}")
        results.append(read_result(directory / name))
    return directory, results


def training_arguments(arguments: list[str]) -> list[str]:
    """Return the command line without compare's own options, and without those that each training gets separately."""
    others = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in ("--ranks", "--output", "--architecture", "--plan"):
        others.add_argument(option)
    others.add_argument("--json", action="store_true")
    return others.parse_known_args(arguments)[1]


def _print_table(model, results):
    entry = entry_of(model)
    quality = entry.quality or next((name for name in QUALITIES if name in results[0]), "loss")
    ranks, steps = results[0]["ranks"], results[0]["steps"]
    kinds = kinds_told([result["sent_per_step"] for result in results])
    headings = ("architecture", f"{entry.unit}/s", *kinds, "loss", f"held-out {quality}", "parameters")
    rows = [(r["architecture"], "-" if r["examples_per_second"] is None else f"{r['examples_per_second']:,.0f}",
             *(f"{r['sent_per_step'][kind]:,.0f}" for kind in kinds), f"{r['loss']:.4f}",
             f"{r[quality]:.4g}" if r.get(quality) is not None else "-", r["parameters_sha256"][:12]) for r in results]
    title = f"{model} on {counted(ranks, 'rank')}, {counted(steps, 'step')}; bytes sent per rank and step"
    console().print(table_of(title, headings, rows, words=("architecture", "parameters"), whole=headings))
    if shared := dict.fromkeys(r["architecture"] for r in results if r["shared_memory"]):
        print(f"{', '.join(shared)}: {READ_IN_PLACE}")
