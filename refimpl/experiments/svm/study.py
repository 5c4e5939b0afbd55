"""Count the work of each rule on one rank, and predict rounds, bytes and seconds on up to 4,096 ranks from it.

    seconds on N ranks = computation that every rank repeats + the rest / N
                       + rounds (latency + (N - 1) seconds of a message) + bytes of the busiest rank / rate
"""

from dataclasses import dataclass

import numpy as np

from kernels.svm.definition import KernelFunction
from models.data.files import DataError
from models.svm.named import load_samples
from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.svm import BASE, LATENCY, MESSAGE, OURS, PARTS, QUICK, RATE, SIZES, rules
from refimpl.pictures.lines import Line, plot_lines
from refimpl.svm.foretell import Foretold, foretell

SHOWN = {"first order": BASE, "with elimination": "multi, every 5 % of the samples",
         "second order, all rows kept": "second order, all rows kept", "blocks": OURS}
"""Lines of the picture -> rules."""


@dataclass(frozen=True)
class Counted:
    """A rule's counts. seconds: of one rank's processor.  alone: the part that each of N ranks would repeat."""

    seconds: float
    alone: float
    plans: list[Foretold]

    @property
    def solver(self):
        """The training on one rank."""
        return self.plans[0].solvers[0]

    def seconds_on(self, plan: Foretold) -> float:
        """Return the seconds that a training would take on the simulated network."""
        talk = plan.rounds * (LATENCY + (plan.ranks - 1) * MESSAGE) if plan.ranks > 1 else 0.0
        return self.alone + (self.seconds - self.alone) / plan.ranks + talk + plan.bytes.max() / RATE


def study(name: str, quick: bool = False) -> Finding:
    """Return the finding for a set of PARTS; if a package is missing, the finding says so. Local."""
    classes, count, c, gamma = PARTS[name]
    try:
        rows, labels = load_samples(name, classes, QUICK if quick else count)
    except DataError as problem:
        return Finding(f"Samples: {name}", [], [f"Not measured: {problem}"])
    kernel = KernelFunction("gaussian", gamma)
    for rule in (OURS, "multi, every 2"):  # compile everything
        foretell(rows[:40], np.arange(40) % 2, kernel, rules(40, c)[rule], [1])
    found = {}
    for rule, options in rules(len(labels), c).items():
        plans = foretell(rows, labels, kernel, options, SIZES[:1])
        solver = plans[0].solvers[0]
        plans += foretell(rows, labels, kernel, options, SIZES[1:]) if rule in SHOWN.values() else []
        found[rule] = Counted(solver.whole.seconds, solver.whole.seconds - solver.samples.divided.seconds, plans)
    return finding(name, len(labels), found)


def finding(name: str, count: int, found: dict[str, Counted]) -> Finding:
    """Return tables, sentences and the picture. found: rule -> its counts, for ``count`` samples. Local."""
    base = found[BASE].solver.evaluations
    rows = [[rule, f"{one.solver.evaluations / 1e6:.2f}", f"{base / one.solver.evaluations:.1f}",
             f"{one.solver.iterations:,}", f"{one.plans[0].rounds:,}", f"{one.seconds:.2f}",
             "not known" if one.solver.objective is None else f"{one.solver.objective:.6g}"]
            for rule, one in found.items()]
    counts = Table(f"{name}, {count:,} samples: what each rule computes on one rank", [
        "rule", "million evaluations", "times fewer", "iterations", "rounds", "s", "objective"], rows)
    ranks = Table("Foretold on many ranks", [
        "rule", "ranks", "rounds", "MB, busiest rank", "s", "times one rank"], [
        [label, f"{plan.ranks:,}", f"{plan.rounds:,}", f"{plan.bytes.max() / 1e6:,.2f}",
         f"{found[rule].seconds_on(plan):.3f}",
         f"{found[rule].seconds_on(found[rule].plans[0]) / found[rule].seconds_on(plan):.1f}"]
        for label, rule in SHOWN.items() for plan in found[rule].plans])
    lines = [Line(label, [plan.ranks for plan in found[rule].plans],
                  [found[rule].seconds_on(plan) for plan in found[rule].plans], style)
             for style, (label, rule) in enumerate(SHOWN.items())]
    picture = plot_lines(lines, "ranks", "seconds", f"Seconds of a training on {name} that are foretold for up to "
                         f"{SIZES[-1]:,} ranks", log="xy")
    return Finding(f"Samples: {name}", [counts, ranks], sentences(found), pictures={f"svm-{name}": picture})


def sentences(found: dict[str, Counted]) -> list[str]:
    """Return sentences that compare the counts with the paper. Local."""
    base, work = found[BASE].solver, {rule: one.solver.evaluations for rule, one in found.items()}
    least = min((rule for rule in found if "every" in rule and rule.startswith(("single", "multi"))), key=work.get)
    best = min(work, key=work.get)
    rounds = found["second order, multi, all rows kept"].plans[0].rounds / found[OURS].plans[0].rounds
    fastest = {label: min(found[rule].plans, key=found[rule].seconds_on) for label, rule in SHOWN.items()}
    return [
        f"Elimination alone saves {1 - work[least] / base.evaluations:.0%} of the evaluations ({least}); the paper's "
        "parallel trainings became 30 to 60 % faster.",
        f"All together save most: {best}, {base.evaluations / work[best]:.1f} times fewer; the paper's 26 times are "
        "over a sequential program.",
        f"In blocks a training has {rounds:.0f} times fewer rounds than in pairs.",
        "Foretold, a training is fastest on: " + ", ".join(
            f"{plan.ranks:,} rank{'s' * (plan.ranks > 1)} ({label})" for label, plan in fastest.items())
        + ". On more ranks, messages take longer than the computation: every rank tells all others its candidates.",
        f"Assumed: {RATE * 8 / 1e9:.0f} Gbit/s a rank, {LATENCY * 1e6:.0f} us until a message arrives, "
        f"{MESSAGE * 1e6:.0f} us of a rank's time for each. Rounds and bytes are exact; seconds are not measured.",
        "What differs from the paper: other sets of samples, another machine, and a program that keeps kernel rows, as "
        "the authors' does not. Kernel evaluations do not depend on a machine."]
