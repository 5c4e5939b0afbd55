"""Run the cases on an adapter's ranks and judge what they answer."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refimpl.conformance.target import LAUNCHERS, Answer, Target, launcher_of, load, read
from refimpl.conformance.case import Case
from refimpl.conformance.cases import all_cases
from refimpl.conformance.compare import Verdict, judge
from refimpl.conformance.diagnose import diagnose
from refimpl.conformance.launchers import start
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.worlds import run_ranks

START_SECONDS = 120.0
NEVER = "never came back from this case"


@dataclass
class Outcome:
    """All verdicts on one target on one number of ranks. launcher: one of LAUNCHERS, "" where nothing was run."""

    target: str
    ranks: int
    semantics: Semantics
    verdicts: list[Verdict]
    launcher: str = ""

    @property
    def failed(self) -> list[Verdict]:
        """The verdicts that failed."""
        return [v for v in self.verdicts if v.status == "failed"]


def run_target(name: str, ranks: int, *, launcher: str | None = None, only: str = "", timeout: float = 60.0) -> Outcome:
    """Run every case on the adapter module ``name`` and judge it. Local: starts the ranks itself.

    only: run the cases whose name has this in it.  timeout: seconds for a case.
    Raises ValueError for an adapter that cannot be run at all, saying why.
    """
    launcher = launcher or launcher_of(name)
    if launcher not in LAUNCHERS:
        raise ValueError(f"no launcher {launcher!r}; there are {', '.join(LAUNCHERS)}")
    cases = [case for case in all_cases(ranks) if only in case.name]
    if not cases:
        raise ValueError(f"no case has {only!r} in its name")
    if launcher == "local":
        module = load(name)
        return run_local(module.for_world, ranks, cases, name)
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        return _run_jobs(name, ranks, launcher, cases, Path(folder), timeout)


def run_local(make, ranks: int, cases=None, name: str = "local") -> Outcome:
    """Run cases in this process. make(world) -> an object with the protocol's functions; ranks are threads. Local."""
    cases = all_cases(ranks) if cases is None else cases
    semantics, pairs = None, []
    for case in cases:
        semantics, answers = answers_of(make, case)
        pairs.append(judge(case, semantics, answers))
    diagnose(pairs)
    return Outcome(name, ranks, semantics, [verdict for verdict, _ in pairs], "local")


def answers_of(make, case: Case) -> tuple[Semantics, list[Answer]]:
    """Run a case in this process; return the manifest and each rank's answer. make: see ``run_local``. Local."""
    def work(world):
        target = Target(make(world))
        answer = target.answer(case, world.rank)
        if answer.error:
            world.leave()
        return target.semantics, answer

    found = run_ranks(case.ranks, work)
    return found[0][0], [answer for _, answer in found]


def _run_jobs(name, ranks, launcher, cases, folder, timeout) -> Outcome:
    """Run the cases in one job, or in several: where a case ends a job, the next job begins behind it."""
    todo, said = list(enumerate(cases)), {}
    semantics: Any = None
    while todo:
        (folder / "cases.json").write_text(json.dumps([[number, case.name] for number, case in todo]))
        how = start(launcher, ranks, ["-m", "refimpl.conformance.worker", name, str(folder), str(timeout)],
                    START_SECONDS + timeout * len(todo))
        semantics = semantics or _manifest(folder, ranks, name, how)
        left = [(number, case) for number, case in todo
                if any((answer := read(folder, number, r)) is None
                       or answer.error and not case.may_be_refused for r in range(ranks))]
        if not left:
            break
        said[left[0][0]] = how
        todo = [item for item in todo if item[0] > left[0][0]]
    pairs = []
    for number, case in enumerate(cases):
        answers = [read(folder, number, r) for r in range(ranks)]
        how = said.get(number, "")
        told = any(a is not None and a.error and a.error in how for a in answers)  # by the rank that ended the job
        silent = NEVER if told or not how else f"{NEVER}: {how}"
        pairs.append(judge(case, semantics, [a if a is not None else Answer(error=silent) for a in answers]))
    diagnose(pairs)
    return Outcome(name, ranks, semantics, [verdict for verdict, _ in pairs], launcher)


def _manifest(folder, ranks, name, how) -> Semantics:
    """Return the manifest that all ranks gave."""
    texts = [path.read_text() for r in range(ranks) if (path := folder / f"manifest-{r}.json").exists()]
    if len(texts) < ranks:
        raise ValueError(f"{name} did not start on {ranks} ranks: {how or 'some of them gave no manifest'}")
    data = [json.loads(text) for text in texts]
    sizes = {d.pop("ranks") for d in data}
    if sizes != {ranks}:
        raise ValueError(f"{name}: world() says {sorted(sizes)} ranks, {ranks} were started")
    if any(d != data[0] for d in data):
        raise ValueError(f"{name}: describe() returns different manifests on different ranks: all must be equal")
    return Semantics.from_json(data[0])
