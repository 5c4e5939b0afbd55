"""Train a support vector machine on the ranks that mpirun started, plan a training, or predict with a machine."""

import json
from pathlib import Path

from kernels.svm.definition import KINDS, KernelFunction
from models.svm.named import SETS
from models.svm.solver import ELIMINATIONS, SELECTIONS, SvmOptions
from refimpl.cli.asked.values import file, nonempty, real, whole
from refimpl.cli.told.tables import console, table_of
from refimpl.transport import CollectiveError
from refimpl.words import counted

REFUSALS = (ValueError, OSError, CollectiveError)


def add(parser):
    """Add the options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    train = actions.add_parser("train", help="train on a file or a named set of samples",
                               description="Train on samples; the same bits on any number of ranks.")
    train.add_argument("--output", metavar="MODEL", type=file, help="write the result to this file, for svm predict")
    plan = actions.add_parser("plan", help="print what a training will send on any number of ranks",
                              description="Train on one rank, and print how many bytes each of N ranks will send. The "
                                          "ledger of svm train counts the same bytes.")
    plan.add_argument("--ranks", type=whole(), nargs="+", metavar="N", default=[1, 2, 4, 8, 16],
                      help="numbers of ranks (default 1 2 4 8 16)")
    for each in (train, plan):
        _training(each)
    predict = actions.add_parser("predict", help="predict the labels of a file", description="Print the label of each "
                                 "sample of a file, and how many are as the file says.")
    predict.add_argument("model", metavar="MODEL", type=nonempty, help="a file that svm train has written")
    _samples(predict)
    for each in (train, plan, predict):
        each.add_argument("--json", action="store_true", help="print one JSON object")


def _training(parser):
    _samples(parser)
    parser.add_argument("--c", type=real(above=True), default=1.0, help="the largest weight of a sample, C (default 1)")
    parser.add_argument("--kernel", choices=KINDS, default="gaussian", help="the kernel (default gaussian)")
    parser.add_argument("--gamma", type=real(above=True), help="γ of the kernel (default 1 / number of features)")
    parser.add_argument("--degree", type=whole(), default=3, help="degree of the polynomial kernel (default 3)")
    parser.add_argument("--constant", type=real(), default=0.0, help="constant of the polynomial kernel (default 0)")
    parser.add_argument("--tolerance", type=real(above=True), default=1e-3,
                       help="stop when the gap of the optimality condition is at most twice this (default 1e-3)")
    parser.add_argument("--selection", choices=SELECTIONS, default="second",
                       help="select pairs by first-order or second-order information (default second)")
    parser.add_argument("--elimination", choices=ELIMINATIONS, default="multi",
                       help="when to leave out samples that cannot become support vectors (default multi)")
    parser.add_argument("--period", type=whole(),
                       help="iterations between two eliminations (default: half the samples, at least 1000)")
    parser.add_argument("--cache", type=whole(), default=200, metavar="MB",
                       help="memory on each rank for kernel rows, in megabytes (default 200)")
    parser.add_argument("--block", type=whole(), default=64, metavar="P",
                       help="in one round change on each side the P samples that violate the optimality condition "
                            "most; more samples, fewer rounds; 1: one pair (default 64)")


def _samples(parser):
    parser.add_argument("samples", metavar="SAMPLES", type=nonempty,
                        help="a file with a sample in each line, LABEL FEATURE:VALUE …, or a named set: "
                             f"{', '.join(SETS)}; NAME:DIR reads its file from a directory")
    parser.add_argument("--classes", type=int, nargs="+", metavar="LABEL", help="use only samples with these labels")
    parser.add_argument("--first", type=whole(), metavar="N", help="use only the first N of the samples")


def _read(given, width=None):
    from models.svm.named import load_samples

    return load_samples(given["samples"], given["classes"], given["first"], width)


def run(given: dict) -> int:
    """Train, collective over all ranks; or plan or predict, local."""
    return {"train": _train, "plan": _plan, "predict": _predict}[given.pop("action")](given)


def _train(given) -> int:
    from models.svm.classes import train_classifier
    from models.svm.files import save_classifier
    from refimpl.svm.ranks import SvmRanks

    ranks = SvmRanks.of()
    rows, labels = ranks.comm.together(lambda: _begin(given), (ValueError, OSError))
    classifier, solvers = train_classifier(rows, labels, *_settings(given, rows.shape[1]), ranks)
    evaluations, sent = ranks.comm.gather_numbers(
        [sum(solver.evaluations for solver in solvers), ranks.comm.ledger.total()], "the counts").sum(axis=0)
    if ranks.rank:
        return 0
    if given["output"]:
        save_classifier(given["output"], classifier)
    supports = sum(len(machine.coefficients) for machine in classifier.machines)
    told = {"samples": len(labels), "classes": len(classifier.classes), "ranks": ranks.size,
            "iterations": sum(solver.iterations for solver in solvers), "evaluations": int(evaluations),
            "rounds": sum(solver.traffic.rounds for solver in solvers), "bytes": int(sent),
            "support_vectors": supports, "sha256": classifier.sha256(),
            "objectives": [solver.objective for solver in solvers]}
    if given["json"]:
        print(json.dumps(told))
        return 0
    print("{samples:,} samples of {classes} classes, {on}: {iterations:,} iterations in {rounds:,} rounds, "
          "{evaluations:,} kernel evaluations, {bytes:,} B sent\n"
          "{support_vectors:,} support vectors, sha256 {sha256}".format(on=counted(ranks.size, "rank"), **told))
    print("dual objective: " + _objectives(told["objectives"]))
    return 0


def _begin(given):
    """Return the samples. Raises ValueError, before anything is computed, if --output has no directory."""
    if given["output"] and not Path(given["output"]).parent.is_dir():
        raise ValueError(f"--output {given['output']}: there is no directory {Path(given['output']).parent}")
    return _read(given)


def _settings(given, width):
    """Return the kernel and the options of a training."""
    kernel = KernelFunction(given["kernel"], given["gamma"] or 1 / max(width, 1), given["degree"], given["constant"])
    return kernel, SvmOptions(given["c"], given["tolerance"], given["selection"], given["elimination"],
                              given["period"], given["cache"] << 20, given["block"])


def _plan(given) -> int:
    from refimpl.svm.foretell import foretell

    rows, labels = _read(given)
    told = [{"ranks": one.ranks, "rounds": one.rounds, "bytes": int(one.bytes.sum()),
             "most_bytes": int(one.bytes.max()), "objectives": [solver.objective for solver in one.solvers]}
            for one in foretell(rows, labels, *_settings(given, rows.shape[1]), given["ranks"])]
    if given["json"]:
        print(json.dumps(told))
    else:
        lines = [[f"{one[key]:,}" for key in ("ranks", "rounds", "bytes", "most_bytes")] for one in told]
        heads = ["ranks", "rounds", "B, all ranks", "B, the busiest rank"]
        console(150).print(table_of("What a training sends", heads, lines))
    return 0


def _objectives(found) -> str:
    if None in found:
        return "not known, because nothing was reconstructed"
    return f"{found[0]:.9g}" if len(found) == 1 else f"{sum(found):.9g}, the sum of {len(found)} machines"


def _predict(given) -> int:
    from models.svm.files import load_classifier

    classifier = load_classifier(given["model"])
    rows, labels = _read(given, classifier.machines[0].vectors.shape[1])
    found = classifier.predict(rows)
    right = int((found == labels).sum())
    if given["json"]:
        print(json.dumps({"labels": found.tolist(), "right": right, "samples": len(labels)}))
    else:
        print(*found, sep="\n")
        print(f"{right} of {len(labels)} labels are as given ({right / len(labels):.2%})")
    return 0
